"""Real processes under load that are killed and disconnected, and a checker of the stored data."""
