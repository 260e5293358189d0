"""One module per command group; each command imports its dependencies when it runs."""
