"""Generators of local views: what a law is shown in training."""
