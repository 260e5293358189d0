"""The fake payment processor (CONTRACT 9): it keeps a real processor's rules, and no money moves.

cards      what the hosted page accepts, and what each card leads to
charge     one payment with all that happened to it since
machine    one intent: pages and charges; commands and time give the next state
answers    idempotency: what was answered under a key is answered again
faults     misbehaviour that was asked for
signing    its events: how they are signed, and how they are told from forged ones
payees     accounts of staff members, and whether they can be paid
book       where all of this is kept; a store implements it
accounts   finding and changing payees in the book
calls      one call: faults, kept answers and the machine in one transaction
outbox     what time changes, and the events that are due
listing    the event log by pages, and the statement
sandbox    the sandbox port: hosted pages, chargebacks, faults, due events
dashboard  what an operator does without the service
processor  the payment port, by way of all the above
"""

__all__ = ["processor"]
