"""Contract tests: the behaviour that every adapter of a port must have, run over all adapters."""
