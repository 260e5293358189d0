"""File storage in a local or shared folder."""
