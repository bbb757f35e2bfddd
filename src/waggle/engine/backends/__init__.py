"""What runs the tokens of the engine: the lean decoder, transformers as a fallback, the LM head."""
