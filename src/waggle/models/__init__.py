"""Weights by name: where they come from, how they get here, how they are loaded.

Read `catalog` (the named models), `fetch` (download and convert), `vet` and `trial` (what is asked
of a foreign folder first), `load` (model and tokenizer on a device), then `bare` (the quick way for
plain folders), `adapters` (LoRA) and `nano` (models made here). Nothing in this folder knows the
decoding engine.
"""
