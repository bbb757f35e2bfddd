"""Commands that measure speed: `waggle bench`; `checkout` opens the benchmarks of a checkout."""
