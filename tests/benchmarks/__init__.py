"""Tests of the benchmarks, on models of a few layers."""
