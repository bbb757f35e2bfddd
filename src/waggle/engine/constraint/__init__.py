"""Constrained decoding.

`grammar` spells admissible byte strings, `vocabulary` shows a tokenizer as bytes, and `matcher`
brings both together: accept a token, jump forward over forced tokens, and mask the next one.
"""
