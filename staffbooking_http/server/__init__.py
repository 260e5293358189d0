"""The embedded server and its maintenance mode."""
