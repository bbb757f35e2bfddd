"""The viewer: records of episodes as a page in the browser, served on this machine or exported.

Read `library` (a folder of records), `scene` (where agents stand and who meets whom), `episode`
(the JSON that the page plays) with `decisions` (one decision in words) and `growing` (a record that
is being played), then `app` and `server`, which serve it, `export`, which writes it to files, and
`gif`, which takes pictures of it in the browser of `chromium`. The page itself lies in `static`.
Records are not trusted: all that is sent is bounded JSON, and the page shows every string of it as
text.
"""
