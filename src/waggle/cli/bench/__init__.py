"""Commands that measure speed: `waggle bench ...`."""
