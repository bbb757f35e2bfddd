"""Training data: `arrays`, `records`, `tokenize`, then `harvest`, `encode` and `batches`.

`arrays` holds encoded records end to end. `records` and `tokenize` turn corpus records into tokens.
`harvest` makes the token corpus of stage one, `encode` the arrays of the decision corpus, and
`batches` deals both to updates.
"""
