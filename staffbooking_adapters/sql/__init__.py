"""The store on PostgreSQL and SQLite: one schema, one set of statements, one seam."""

__all__ = ["clock", "engine", "messaging", "sandbox", "schema", "store"]
