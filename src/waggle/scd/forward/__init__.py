"""Forward passes of the backbone over ragged batches."""
