"""A stub of the part of Stripe that we use: an HTTP server with state, rules, faults and events.

The official SDK calls it over loopback, and every request and every answer is checked against
the types of the installed SDK.

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
        stub.inject_fault("refund", "reset_after")
        for headers, body in stub.events(): ...

The methods of `StripeStub` are the actions of clients, banks, payees and the Dashboard.
`StubFault` lists the faults of calls, `EventDeliveryMode` those of events, and `PricingTerms`
Stripe's fees and periods. The only clock is the first argument of `open_stub`. A POST needs an
explicit idempotency key; the SDK's random keys are refused. The end of the block raises if an
answer of the stub did not fit the SDK's types.
"""

from tests.stripe_stub.events import EventDeliveryMode
from tests.stripe_stub.faults import StubFault
from tests.stripe_stub.state import PricingTerms
from tests.stripe_stub.stub import StripeStub, open_stub
from tests.stripe_stub.version import VERSION

__all__ = ["VERSION", "EventDeliveryMode", "PricingTerms", "StripeStub", "StubFault", "open_stub"]
