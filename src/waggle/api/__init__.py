"""The Python API: `waggle.run`, `waggle.sweep` and the objects they return.

Read `run` first, then `episode` and `show` for one finished episode, `sweep` and `runs` for many.
`findings` says what stands against an episode as a result. `options` sorts keyword options into
those of the task, the law and the runtime; `given` resolves tasks, laws, workers and metrics given
by name or as objects; `screen`, `grid`, `draw`, `watch` and `progress` are the output on a terminal
and in a notebook. The commands `waggle run`, `waggle show` and `waggle replay` are built from the
same parts.
"""
