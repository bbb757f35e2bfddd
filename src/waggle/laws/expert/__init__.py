"""The rule-based teacher, one module of rules per substrate."""
