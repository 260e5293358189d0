"""Connected accounts (v2) and their onboarding links."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.stripe_stub.call import EndpointCall, EndpointHandler
from tests.stripe_stub.errors import StripeApiError
from tests.stripe_stub.state import StripeObjectData, StripeState, check_metadata

INCLUDABLE_FIELDS = ("configuration", "defaults", "future_requirements", "identity", "requirements")
"""Fields that are null unless the call names them in `include`."""

CAPABILITY_CHANGED = "v2.core.account[configuration.recipient].capability_status_updated"
REQUIREMENTS_CHANGED = "v2.core.account[requirements].updated"


def create_account(state: StripeState, call: EndpointCall) -> StripeObjectData:
    given = call.params
    identity, defaults = given.get("identity", {}), given.get("defaults", {})
    if "contact_email" not in given and given.get("dashboard") == "express":
        raise StripeApiError("An express account needs a contact_email", param="contact_email")
    if "country" not in identity:
        raise StripeApiError("A recipient needs a country", param="identity[country]")
    asked = _requests_transfers(given)
    account = state.add(
        {
            "id": state.new_id("acct_1", 15),
            "object": "v2.core.account",
            "applied_configurations": ["recipient"] if asked else [],
            "closed": False,
            "configuration": {
                "customer": None,
                "merchant": None,
                "recipient": {
                    "applied": True,
                    "capabilities": {"stripe_balance": {"stripe_transfers": _capability(False)}},
                }
                if asked
                else None,
            },
            "contact_email": given.get("contact_email"),
            "created": _timestamp_text(state),
            "dashboard": given.get("dashboard"),
            "defaults": {
                "currency": defaults.get("currency"),
                "locales": None,
                "profile": None,
                "responsibilities": {
                    **defaults.get("responsibilities", {}),
                    "requirements_collector": "stripe",
                },
            },
            "display_name": given.get("display_name"),
            "future_requirements": None,
            "identity": {
                "attestations": None,
                "business_details": None,
                "country": identity["country"],
                "entity_type": identity.get("entity_type"),
                "individual": None,
            },
            "livemode": False,
            "metadata": check_metadata(given.get("metadata", {})),
            "requirements": _requirements(False),
        }
    )
    return _visible_fields(account, call)


def _requests_transfers(given: dict[str, Any]) -> bool:
    """Whether the account requests the capability to receive transfers."""
    recipient = given.get("configuration", {}).get("recipient", {})
    balance = recipient.get("capabilities", {}).get("stripe_balance", {})
    return bool(balance.get("stripe_transfers", {}).get("requested"))


def _capability(ready: bool) -> StripeObjectData:
    lacking = {"code": "requirements_past_due", "resolution": "provide_info"}
    return {
        "status": "active" if ready else "restricted",
        "status_details": [] if ready else [lacking],
    }


def _requirements(ready: bool) -> StripeObjectData:
    restricted = {
        "capability": "stripe_balance.stripe_transfers",
        "configuration": "recipient",
        "deadline": {"status": "currently_due"},
    }
    entry = {
        "awaiting_action_from": "user",
        "description": "identity.individual.given_name",
        "errors": [],
        "impact": {"restricts_capabilities": [restricted]},
        "minimum_deadline": {"status": "currently_due"},
        "reference": None,
        "requested_reasons": [{"code": "routine_onboarding"}],
    }
    summary = {"minimum_deadline": {"status": "currently_due", "time": None}}
    return {"entries": [] if ready else [entry], "summary": None if ready else summary}


def can_receive(account: StripeObjectData) -> bool:
    recipient = account["configuration"]["recipient"]
    if recipient is None:
        return False
    balance = recipient["capabilities"]["stripe_balance"]
    return bool(balance["stripe_transfers"]["status"] == "active")


def set_ready(state: StripeState, reference: str, ready: bool) -> None:
    """Complete the account's requirements, or add one, and send both thin events."""
    account = state.find("v2.core.account", reference)
    recipient = account["configuration"]["recipient"]
    recipient["capabilities"]["stripe_balance"]["stripe_transfers"] = _capability(ready)
    account["requirements"] = _requirements(ready)
    for kind in (CAPABILITY_CHANGED, REQUIREMENTS_CHANGED):
        state.events.send_thin_event(
            kind, reference, state.new_id("evt_test_"), _timestamp_text(state)
        )


def retrieve_account(state: StripeState, call: EndpointCall) -> StripeObjectData:
    return _visible_fields(state.find_by_path("v2.core.account", call.ids[0]), call)


def _visible_fields(account: StripeObjectData, call: EndpointCall) -> StripeObjectData:
    included = {each.partition(".")[0] for each in call.params.get("include", ())}
    hidden = set(INCLUDABLE_FIELDS) - included
    return {name: None if name in hidden else value for name, value in account.items()}


def create_account_link(state: StripeState, call: EndpointCall) -> StripeObjectData:
    account = state.find("v2.core.account", call.params["account"], "account")
    return {
        "object": "v2.core.account_link",
        "account": account["id"],
        "created": _timestamp_text(state),
        "expires_at": _timestamp_text(state, timedelta(minutes=5)),
        "livemode": False,
        "url": f"https://connect.stripe.com/setup/e/{account['id']}/{state.new_id('', 12)}",
        "use_case": call.params["use_case"],
    }


def _timestamp_text(state: StripeState, after: timedelta = timedelta()) -> str:
    """Now plus `after` in the text format of v2."""
    moment = state.now() + after
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


ROUTES: dict[str, EndpointHandler] = {
    "v2.core.accounts.create": create_account,
    "v2.core.accounts.retrieve": retrieve_account,
    "v2.core.account_links.create": create_account_link,
}
