"""Tables and figures of reorganization after late counterevidence."""
