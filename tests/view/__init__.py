"""Tests of the viewer: its JSON, hostile records, and the page in a browser."""
