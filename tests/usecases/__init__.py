"""Use-cases in virtual time, on ports in memory."""
