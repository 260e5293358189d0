"""The benchmark (`make bench`): the service compared with a yardstick on one database.

docs/benchmarks.md describes how to run it and how to read its results.
"""
