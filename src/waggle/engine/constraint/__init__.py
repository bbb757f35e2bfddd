"""Constrained decoding: grammars, the token matcher with jump-forward, the vocabulary as bytes."""
