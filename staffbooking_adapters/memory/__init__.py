"""The service in the process's own memory: a complete store, and stand-ins for the machine.

For embedding, simulation and tests. It keeps transactions, constraints and leases as the
databases do (one contract suite runs over all of them), but nothing outlives the process.
"""

__all__ = ["doubles", "files", "sandbox", "store", "webhooks"]
