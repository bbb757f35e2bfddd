"""Commands about the installation: `waggle list`, `models` and `doctor`."""
