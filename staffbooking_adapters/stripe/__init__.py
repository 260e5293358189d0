"""Stripe (PAYMENTS 2-4): hosted checkouts, separate charges and transfers, Accounts v2.

marks       what tells our objects from those of other deployments on the same account
reading     reading documents in which anything may be missing, null, or expanded
errors      from the SDK's errors to the core's, and the time that a call may take
facts       from Stripe's objects to the core's states
looking     all that Stripe knows of one intent
events      webhooks: which are believed, and where they say to look
changes     the events of a while, asked for
statement   every movement of the balance, in the order of intents
checkup     whether the account is set up so that money held stays there
currencies  the least that Stripe charges
processor   the port, by way of all the above
"""

__all__ = ["processor"]
