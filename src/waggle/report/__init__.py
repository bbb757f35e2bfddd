"""Reports: tables and figures from the rows of a run, and the pages that hold them.

Read in this order:

* `rows` reads rows and says what may be compared; `provenance` says where numbers come from.
* `tables` and `figure` are one table and one figure in all their forms; `layout` is what most
  tables share.
* `catalog` names all tables and figures: `primary`, `scale`, `generic`, `agentsnet`, `ceilings`,
  `floors`, `workers`, `byzantine`, `specialists`, `factorial`, `diagnoses`, `curves`, and the
  folder `reorganization`.
* `learning` makes the report of runs of `waggle learn`.
* `page` writes the report of a run with the parts in `web/`, `docs_pages` the results pages of the
  documentation, `model_card` the card of a law from what `law_results` gathers.
"""
