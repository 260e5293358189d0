"""The store on PostgreSQL and SQLite: one schema, one set of statements, one seam."""
