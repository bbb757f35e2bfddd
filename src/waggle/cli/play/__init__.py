"""Commands that play episodes: `waggle run`, `demo`, `replay` and `serve`."""
