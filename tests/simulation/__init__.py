"""The service under chance: random acts, faults and crashes on virtual time."""
