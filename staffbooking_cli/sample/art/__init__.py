"""Draws the sample's portraits and portfolio pictures."""
