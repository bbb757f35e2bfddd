"""A complete plug-in for waggle: one substrate, one law, one metric."""
