"""The web page of a report: its first screen, and the scripted parts beside the tables.

`opening` describes the comparison and its outcome in words, `picture` draws it, `episodes` lists
single episodes with links into the viewer. `report.css` and `report.js` are inlined into the page,
which needs no other file. Strings of rows are untrusted: they are shown as plain text.
"""
