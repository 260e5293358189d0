"""One module a family of commands; each imports what it works with inside its commands."""
