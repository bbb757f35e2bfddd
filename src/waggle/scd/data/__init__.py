"""Training data: records, tokens, arrays, batches."""
