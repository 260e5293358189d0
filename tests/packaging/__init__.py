"""Tests of the distributions and of what their extras bring."""
