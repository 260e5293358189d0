"""Use-cases: load, decide, save, in one transaction. One module a family."""
