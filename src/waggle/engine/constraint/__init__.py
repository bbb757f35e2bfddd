"""Constrained decoding.

`grammar` defines the admissible byte strings, `vocabulary` presents a tokenizer as bytes, and
`matcher` combines both: accept a token, jump forward over forced tokens, and mask the next one.
"""
