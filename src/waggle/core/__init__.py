"""The anonymous contract: frozen data and pure functions; no I/O, clock, torch or global RNG."""
