"""The anonymous contract: frozen data and pure functions; no I/O, clock, torch or global RNG.

Read `schema` first (View, Trace, Decision), then `relations`, the rules that relate a decision to
its view. `bounds` and `keys` validate a view, `canon` serializes it, `decode` parses a decision and
`admit` checks it. `options` lists every legal decision; `templates` samples them and `grammar`
describes their texts by the nodes of `forms`. `naming`, `labelling`, `order` and `orbit` implement
the symmetry of views; `modes` and `summary` describe decisions without names. `prompt` builds the
prompt of a language model, `protocols`, `world` and `worker` define the extension points, `record`
the episode record, `seeds` the random streams, and `errors` the exceptions.
"""
