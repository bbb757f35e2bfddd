"""The command line. Read `main` first: it names every command, its module and its exit codes.

`options`, `console` and `errors` are shared by the commands: option types, output, and one-line
error messages; `checkout` finds modules that are not installed with the package. Commands are in
folders by purpose: `play` episodes, `measure` (evaluate, check and benchmark), `training`, and
`setup` of a machine.
"""
