"""Tests of `waggle.corpus.problems`."""
