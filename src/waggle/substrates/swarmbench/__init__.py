"""SwarmBench: five grid tasks, bit-compatible with the official release, and their adapter."""
