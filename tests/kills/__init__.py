"""Real processes under load, killed and cut off again and again, and a checker of what is left."""
