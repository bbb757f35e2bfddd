"""The fixed runtime R = {View, Validator, Readiness, Conflict, Transport, Expiry, Compiler}."""
