"""The viewer: records of episodes as a web page, served on this machine or exported to files.

Read `library` (a folder of records), `scene` (agent positions and contacts), `episode` (the JSON
that the page plays) with `decisions` (one decision in words) and `growing` (the record of a running
episode), then `app` and `server`, which serve the page, `export`, which writes it to files, and
`gif`, which takes screenshots of it with the browser of `chromium`. The page itself is in `static`.
Records are untrusted: the server sends only bounded JSON, and the page shows every string as plain
text.
"""
