"""Evaluation of swarms: the episodes of a plan are played, stored as rows and compared.

Read in this order:

* `plan` turns a recipe into cells; `variants` changes a recipe as the command line asks;
  `selection` selects and orders cells and estimates their cost.
* `episodes` plays one cell; `rows` stores its result; `failures` decides when it does not count.
* `executors` and `batched` play cells in one or more processes; `runner` plays a whole plan.
* `stale` decides which finished rows count, by weights and by `code`, the files of plug-ins;
  `replace` plays rows again; `sessions` logs the calls.
* `merge` imports rows, `archive` compresses them, `row_check` plays a sample of them again.
* `metrics` and `reorganization` measure a record; `stats`, `anchors` and `factorial` compare rows;
  `results` reads the JSON files beside the rows.
* `fitting` reads another kind of recipe: the cases that a learned peer is trained on.
"""
