"""HTML pages for people."""
