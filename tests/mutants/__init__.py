"""Planted money bugs: each patch is a realistic mistake that some test must find."""
