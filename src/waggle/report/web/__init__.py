"""The page of a report: what a person sees first, and what the browser adds to the tables.

`opening` says in words what was compared and what came out, `picture` draws the same, `episodes`
lists single episodes with their way into the viewer. `report.css` and `report.js` are written into
the page, which needs nothing else. Strings of rows are not trusted: they are shown as text.
"""
