"""The command line. Read `main` first: it names every command, its module and its exit codes.

`options`, `console` and `errors` are what commands share: option types, output, and one line for
every mistake; `checkout` finds modules that are not installed with the package. Commands are in
folders by what they are for: `play` episodes, `measure` (evaluate, check and benchmark),
`training`, and `setup` of a machine.
"""
