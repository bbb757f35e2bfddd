"""Tests of the pure core: the anonymous contract."""
