"""The benchmark (`make bench`): the service beside a yardstick, on one database.

docs/benchmarks.md says how to run it and how to read it.
"""
