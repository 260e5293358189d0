"""End-to-end tests with real processes, databases and sockets."""
