"""The way out for webhooks: https to public addresses alone (CONTRACT 7).

gate         which addresses a name stands for, and whether they may be connected to
connections  to those addresses, bounded in what they read, kept for a while
sender       the port, by way of both
"""

__all__ = ["sender"]
