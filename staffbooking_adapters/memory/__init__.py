"""The service in memory: a complete store, and test doubles of the other ports.

For embedding, simulation and tests. Transactions, constraints and leases behave as in the SQL
stores (one contract suite tests all stores), but nothing outlives the process.
"""

__all__ = ["companions", "doubles", "files", "sandbox", "store", "webhooks"]
