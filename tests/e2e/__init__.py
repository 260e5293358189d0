"""Real processes, real databases, real sockets."""
