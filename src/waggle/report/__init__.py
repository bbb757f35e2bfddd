"""Reports: tables and figures from the rows of a run, and one self-contained page of them."""
