"""The anonymous contract: frozen data and pure functions; no I/O, clock, torch or global RNG.

Read `schema` first (View, Trace, Decision), then `relations`, the rules between a decision and its
view. `bounds` and `keys` check a view, `canon` writes it as text, `decode` reads a decision and
`admit` judges it. `options` lists every legal decision; `templates` samples them and `grammar`
spells them out in the nodes of `forms`. `naming`, `labelling`, `order` and `orbit` are the symmetry
of views; `modes` and `summary` describe decisions without names. `prompt` is what a language model
is asked, `protocols`, `world` and `worker` are the extension points, `record` is what an episode
leaves, `seeds` names every random draw, and `errors` has every kind of error.
"""
