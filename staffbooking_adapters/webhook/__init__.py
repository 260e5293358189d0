"""Requests to addresses that users give: https to public addresses only (CONTRACT 7).

gate         resolves host names and checks the addresses
connections  connections to checked addresses, with bounded reads and keep-alive
sender       sends webhooks
calendars    reads calendars
"""

from staffbooking_adapters.extras import check_extra

__all__ = ["calendars", "sender"]

check_extra("worker")
