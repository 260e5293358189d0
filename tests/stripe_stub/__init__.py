"""Stripe as far as we use it: a server on loopback with state, rules, faults and events.

It is no mock of a client: the official SDK talks HTTP to it, and every request and every
answer is held against what the installed SDK's own types say.

    async with open_stub(clock.wall) as stub:
        client = stripe.StripeClient(
            stub.api_key,
            stripe_version=VERSION,
            base_addresses={"api": stub.url},
            http_client=stripe.HTTPXClient(),
            max_network_retries=0,
        )
        session = await client.v1.checkout.sessions.create_async({...}, {"idempotency_key": "k1"})
        stub.pay(session.id)
        stub.break_next("refund", "reset_after")
        for headers, body in stub.events(): ...

The outside world (the client, the bank, the payee, the Dashboard) are the methods of `Stub`;
`Fault` lists what can break, `Delivery` how events go astray, `Terms` what it costs.
The only clock is `now`. A POST needs a key that the caller chose: the random ones of the SDK
are refused.
When an answer of the stub itself departs from the SDK's types, leaving the block raises.
"""

from tests.stripe_stub.events import EventDeliveryMode
from tests.stripe_stub.faults import StubFault
from tests.stripe_stub.state import PricingTerms
from tests.stripe_stub.stub import StripeStub, open_stub
from tests.stripe_stub.version import VERSION

__all__ = ["VERSION", "EventDeliveryMode", "PricingTerms", "StripeStub", "StubFault", "open_stub"]
