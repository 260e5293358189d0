"""Requests to addresses that users give: https to public addresses only (CONTRACT 7).

gate                resolves host names and checks the addresses
dialing             opens connections to checked addresses
connections         HTTP/1.1 connections of the sender, with bounded reads and keep-alive
sender              sends webhooks
calendar_connector  connections of the reader of calendars, based on aiohttp
calendars           reads calendars
"""

from staffbooking_adapters.extras import check_extra

__all__ = ["calendars", "sender"]

check_extra("worker")
