"""The real-time channel: one switchboard a process, and the ways in to it (CONTRACT 6)."""
