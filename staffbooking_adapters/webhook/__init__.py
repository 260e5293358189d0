"""Sending of webhooks: https to public addresses only (CONTRACT 7).

gate         resolves host names and checks the addresses
connections  connections to checked addresses, with bounded reads and keep-alive
sender       the port's implementation
"""

__all__ = ["sender"]
