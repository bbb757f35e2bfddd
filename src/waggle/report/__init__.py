"""Reports: tables and figures from the rows of a run, and the pages that hold them.

Read in this order:

* `rows` reads rows and decides which may be compared; `provenance` describes where numbers come
  from.
* `tables` and `figure` render one table or figure in all output formats; `layout` has the layouts
  that most tables share.
* `catalog` lists all tables and figures by name: `primary`, `scale`, `generic`, `agentsnet`,
  `ceilings`, `floors`, `workers`, `byzantine`, `specialists`, `factorial`, `diagnoses`, `curves`,
  and the folder `reorganization`.
* `learning` makes the report of runs of `waggle learn`.
* `page` writes the report of a run with the parts in `web/`, `docs_pages` the results pages of the
  documentation, `model_card` the card of a law from the results that `law_results` gathers.
"""
