"""The fake payment processor (CONTRACT 9): a real processor's rules without real money.

cards      the hosted page's test cards and their outcomes
charge     one payment with its refunds, payouts, reversals and chargeback
machine    one intent with its pages and charges, as a pure state machine
answers    idempotency: the stored answer of each operation key
faults     injected faults
signing    its events: signing and verification
payees     accounts of staff members and their readiness for payouts
documents  the port of the document store, and the documents in it
accounts   finds and changes payees in the document store
calls      executes one call: faults, stored answers and the machine in one transaction
outbox     changes due by time, and due events
listing    the event log in pages, and the statement
sandbox    the sandbox port: hosted pages, chargebacks, faults, due events
dashboard  an operator's actions outside the service
processor  implements the payment port with the above
"""

__all__ = ["processor"]
