"""Batched decoding for swarms: shared prefixes, shared skeletons, one pass per choice.

Realises the decoding side of the local law (architecture section 1, `engine/`). The package knows
tokens and grammars, never views or swarms; torch is imported by the modules that need it.
"""
