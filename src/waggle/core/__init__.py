"""The anonymous contract: frozen data and pure functions, with no I/O, clock, torch or global RNG."""
