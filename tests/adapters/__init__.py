"""Tests of the adapters that are nobody's contract."""
