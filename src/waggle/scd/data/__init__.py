"""Training data: `arrays`, `records`, `tokenize`, then `batches`, `harvest` and `encode`.

`arrays` holds encoded records end to end. `records` and `tokenize` turn corpus records into tokens,
and `batches` deals arrays to updates. `harvest` makes the token corpus of stage one, `encode` the
arrays and batches of the decision corpus.
"""
