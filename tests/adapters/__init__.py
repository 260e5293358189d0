"""Tests of adapters that no contract suite covers."""
