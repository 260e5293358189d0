"""The platform's own account: balance, events and settings."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.stripe_stub.call import EndpointCall, EndpointHandler, list_page
from tests.stripe_stub.state import StripeObjectData, StripeState

PLATFORM_ACCOUNT_ID = "acct_1PlatformOfTests"


def retrieve_balance(state: StripeState, call: EndpointCall) -> StripeObjectData:
    currencies = [*state.balance] or [state.settings.default_currency]
    available = {each: state.available_balance(each) for each in currencies}
    pending = {each: state.balance[each] - available[each] for each in currencies}
    return {
        "object": "balance",
        "available": [_fund(*each) for each in available.items()],
        "livemode": False,
        "pending": [_fund(*each) for each in pending.items()],
    }


def _fund(currency: str, amount: int) -> StripeObjectData:
    return {"amount": amount, "currency": currency, "source_types": {"card": amount}}


def list_transactions(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return list_page(call, state.list_objects("balance_transaction"))


def retrieve_transaction(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return state.find_by_path("balance_transaction", call.ids[0])


def list_events(state: StripeState, call: EndpointCall) -> StripeObjectData:
    """A page of events. `types` and `type` filter by name; `*` matches any text."""
    params = dict(call.params)
    params.pop("delivery_success", None)
    patterns = [*params.pop("types", ()), *filter(None, [params.pop("type", None)])]
    found = [
        each
        for each in state.list_objects("event")
        if not patterns or any(fnmatchcase(each["type"], pattern) for pattern in patterns)
    ]
    return list_page(EndpointCall(call.path, call.ids, params), found)


def retrieve_event(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return state.find_by_path("event", call.ids[0])


def retrieve_platform_account(state: StripeState, call: EndpointCall) -> StripeObjectData:
    settings = state.settings
    return {
        "id": PLATFORM_ACCOUNT_ID,
        "object": "account",
        "business_type": "company",
        "capabilities": settings.capabilities,
        "charges_enabled": settings.charges_enabled,
        "country": settings.country,
        "created": 1_700_000_000,
        "default_currency": settings.default_currency,
        "details_submitted": settings.details_submitted,
        "email": "platform@example.com",
        "payouts_enabled": settings.payouts_enabled,
        "settings": {
            "branding": {"icon": None, "logo": None},
            "card_payments": {"statement_descriptor_prefix": None},
            "dashboard": {"display_name": "Platform", "timezone": "Etc/UTC"},
            "payments": {"statement_descriptor": None},
            "payouts": {
                "debit_negative_balances": settings.debit_negative_balances,
                "schedule": {"delay_days": 2, "interval": settings.payout_interval or "manual"},
                "statement_descriptor": None,
            },
        },
        "type": "standard",
    }


def retrieve_balance_settings(state: StripeState, call: EndpointCall) -> StripeObjectData:
    settings = state.settings
    return {
        "object": "balance_settings",
        "payments": {
            "debit_negative_balances": settings.debit_negative_balances,
            "payouts": {
                "minimum_balance_by_currency": settings.minimum_balance or None,
                "schedule": {"interval": settings.payout_interval},
                "statement_descriptor": None,
                "status": "enabled" if settings.payouts_enabled else "disabled",
            },
            "settlement_timing": {"delay_days": 2},
        },
    }


def list_endpoints(state: StripeState, call: EndpointCall) -> StripeObjectData:
    settings = state.settings
    return list_page(
        call,
        [
            {
                "id": f"we_{number}",
                "object": "webhook_endpoint",
                "api_version": settings.endpoint_version,
                "application": None,
                "created": 1_700_000_000,
                "description": None,
                "enabled_events": [*settings.endpoint_events],
                "livemode": False,
                "metadata": {},
                "status": settings.endpoint_status,
                "url": url,
            }
            for number, url in enumerate(settings.endpoints, 1)
        ],
    )


def list_destinations(state: StripeState, call: EndpointCall) -> StripeObjectData:
    settings = state.settings
    data = [
        {
            "id": f"ed_test_{number}",
            "object": "v2.core.event_destination",
            "created": "2026-11-20T12:00:00.000Z",
            "description": "Thin events",
            "enabled_events": [*settings.destination_events],
            "event_payload": "thin",
            "events_from": ["self"],
            "livemode": False,
            "metadata": {},
            "name": "Thin events",
            "status": settings.destination_status,
            "type": "webhook_endpoint",
            "updated": "2026-11-20T12:00:00.000Z",
            "webhook_endpoint": {"signing_secret": None, "url": url}
            if "webhook_endpoint.url" in call.params.get("include", ())
            else None,
        }
        for number, url in enumerate(settings.destinations, 1)
    ]
    return {"data": data, "next_page_url": None, "previous_page_url": None}


ROUTES: dict[str, EndpointHandler] = {
    "v1.balance.retrieve": retrieve_balance,
    "v1.balance_transactions.list": list_transactions,
    "v1.balance_transactions.retrieve": retrieve_transaction,
    "v1.events.list": list_events,
    "v1.events.retrieve": retrieve_event,
    "v1.accounts.retrieve_current": retrieve_platform_account,
    "v1.balance_settings.retrieve": retrieve_balance_settings,
    "v1.webhook_endpoints.list": list_endpoints,
    "v2.core.event_destinations.list": list_destinations,
}
