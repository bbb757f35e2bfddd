"""Tools of a checkout that look at it from outside; no part of the package."""
