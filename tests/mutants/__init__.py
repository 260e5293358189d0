"""Planted money bugs: each patch here is a mistake that somebody could make, and some test
must see it."""
