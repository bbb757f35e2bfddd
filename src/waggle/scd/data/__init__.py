"""Training data; read `arrays`, `records`, `tokenize`, then `batches`, `harvest` and `encode`.

`arrays` stores encoded records end to end. `records` and `tokenize` turn corpus records into
tokens, and `batches` assigns records to updates. `harvest` builds the token corpus of stage one,
`encode` the arrays and batches of the decision corpus.
"""
