"""Commands that play episodes: `waggle run`, `demo`, `replay`, `serve`."""
