"""The HTTP runner: it translates requests into use-cases and results into answers."""
