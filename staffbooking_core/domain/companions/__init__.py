"""Companions: profile, availability, search index, portfolio, reviews."""
