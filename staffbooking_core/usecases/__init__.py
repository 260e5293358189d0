"""Use-cases: each loads, decides and saves in one transaction. One package per domain."""
