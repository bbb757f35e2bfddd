"""Other libraries that decode the same prompts with the same weights."""
