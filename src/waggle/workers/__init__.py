"""Private workers by name or file, and the desk through which a swarm calls them.

Reading order: `desk` (questions in batches, cached answers, counted faults), `hire` (from a name or
`FILE.py:callable` to a staff), `rules` (workers without a model), `chat` (a worker behind a chat
endpoint). The questions to a worker are defined in `waggle.core.worker`.
"""
