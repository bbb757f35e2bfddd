"""The front door from Python: `waggle.run`, `waggle.sweep` and what they return.

Read `run` first, then `episode` and `show` for what one episode holds, `sweep` and `runs` for many.
`options` sorts keyword options into those of the task, the law and the runtime; `given` takes
tasks, laws, workers and metrics by name or as objects; `screen`, `grid`, `draw`, `watch` and
`progress` show things on a terminal and in a notebook. The commands `waggle run`, `waggle show` and
`waggle replay` are made of the same parts.
"""
