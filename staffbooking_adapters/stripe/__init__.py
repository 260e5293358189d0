"""Stripe (decision 0008): hosted checkouts, separate charges and transfers, Accounts v2.

deployment_tags  tags that tell our objects from those of other deployments on the same account
documents        access to documents whose fields may be missing, null or expanded
errors           maps the SDK's errors to the core's, with timeouts
mapping          maps Stripe's objects to the core's types
snapshot         reads a snapshot of one intent
events           verifies webhooks and maps them to processor events
event_list       lists past events, to recover lost webhooks
statement        lists every balance movement, ordered by intent
checkup          checks the account's setup
currencies       Stripe's minimum and maximum amounts
processor        the port's implementation
"""

from staffbooking_adapters.extras import check_extra

__all__ = ["processor"]

check_extra("stripe")
