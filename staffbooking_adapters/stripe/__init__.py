"""Stripe (decision 0008): hosted checkouts, separate charges and transfers, Accounts v2.

marks       tags that distinguish our objects from those of other deployments on the same account
reading     access to documents whose fields may be missing, null or expanded
errors      maps the SDK's errors to the core's, with timeouts
facts       maps Stripe's objects to the core's types
looking     reads a snapshot of one intent
events      verifies webhooks and maps them to processor events
changes     lists past events, to recover lost webhooks
statement   lists every balance movement, ordered by intent
checkup     checks the account's setup
currencies  Stripe's minimum amounts
processor   the port's implementation
"""

from staffbooking_adapters.extras import check_extra

__all__ = ["processor"]

check_extra("stripe")
