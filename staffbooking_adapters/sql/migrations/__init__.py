"""The schema's migrations, run by `staffbooking_adapters.sql.schema.upgrade`."""
