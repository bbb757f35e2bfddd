"""Private workers by name or file, and the desk at which a swarm asks them.

Reading order: `desk` (questions asked in batches, cached, faults counted), `hire` (from a name or
`FILE.py:callable` to a staff), `rules` (workers without a model), `chat` (a worker behind a chat
endpoint). What a worker is asked is defined in `waggle.core.worker`.
"""
