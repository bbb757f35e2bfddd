"""The viewer: records of episodes as a page in the browser, served on this machine or exported.

`library` lists a folder of records, `scene` finds where agents stand and who meets whom, `episode`
turns a record into the JSON that the page plays, `app` serves it and `export` writes it to files.
The page itself lies in `static`. Records are not trusted: all that is sent is bounded JSON, and the
page shows every string of it as text.
"""
