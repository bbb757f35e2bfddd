"""The five tasks as the adapter plays them: private plans and what is told."""
