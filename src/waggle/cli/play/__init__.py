"""Commands that play episodes: `waggle run`, `demo`, `show`, `replay` and `serve`."""
