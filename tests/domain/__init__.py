"""Tests of the domain: values in, values out."""
