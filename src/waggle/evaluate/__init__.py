"""Measuring swarms: a plan of episodes is played into rows, and statistics compare them.

Read in this order:

* `plan` turns a recipe into cells; `selection` chooses, orders and costs them.
* `episodes` plays one cell; `rows` is what is kept of it; `failures` says when it is no result.
* `executors` and `batched` are where cells are played; `runner` plays a whole plan.
* `resume` says which finished rows count, `again` replaces them; `sessions` is the log of calls.
* `merge` takes rows from elsewhere, `archive` packs them, `recheck` plays some again.
* `metrics` and `reorganization` measure a record; `stats`, `anchors` and `factorial` compare rows;
  `results` reads the files that lie beside rows.
* `fitting` is another kind of recipe: the cases that a learned peer is trained on.
"""
