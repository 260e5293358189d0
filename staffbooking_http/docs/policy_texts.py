"""The figures of a deployment in the texts of the OpenAPI document."""

from datetime import timedelta
from typing import Any

from attrs import asdict

from staffbooking_core.domain.shared.durations import format_duration
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.policy import Policy
from staffbooking_http.docs.references import JsonObject

_DESCRIPTION = """\
Search staff, request bookings and follow them from acceptance to payout.

Errors are `{{"error", "code"}}`; `code` is stable, `x-codes` lists all. Missing fields are 400
`missing_field`, invalid ones 422 `invalid_field`, both with `errors`, which names every faulty
`field` at once. Where a field's schema does not allow null, null is the same as no field.
Texts contain no control characters and no bidi controls; long ones (comments, responses,
descriptions, messages) may have tabs and line breaks, messages also bidi embeddings and isolates.
Limits are fixed windows from their first hit: {limits}. Every response has `X-RateLimit-Limit`,
`X-RateLimit-Remaining` and `X-RateLimit-Reset` (Unix time) of the most specific one. Calls that are
refused with 400, 404 or 422 count too. The `error` of the 429 names the limit.
Responses under an Idempotency-Key are kept for {idempotency_lifetime}.
Money is a JSON number in {currency}; times are UTC with `Z`.
The ETag of a booking is its `version`, which rises with each change of its record. A change with
`If-Match` of another version is 412 `version_mismatch`, and changes nothing.
"""


def format_description(policy: Policy) -> str:
    """The rules for all calls."""
    limits = policy.limits
    rules = (limits.general, limits.bookings, limits.webhooks)
    told = ", ".join(_format_rule(rule) for rule in rules)
    values = {
        "limits": told,
        "currency": policy.currency.code,
        "idempotency_lifetime": format_duration(policy.idempotency_lifetime),
    }
    return _DESCRIPTION.format_map(values)


def _format_rule(rule: RateLimit) -> str:
    return f"{rule.name} {rule.limit} in {format_duration(rule.window)}"


def policy_values(policy: Policy) -> JsonObject:
    """Return the values of a deployment that texts may name in braces, with their units.

    Each limit of `policy.limits` gives `<name>_limit`, a number, `<name>_window` ("an hour", "15
    minutes") and `<name>_rate`, the text after a number ("an hour", "in 15 minutes").
    """
    values = {
        name: _format_value(name, value) for name, value in asdict(policy, recurse=False).items()
    }
    for name, rule in asdict(policy.limits, recurse=False).items():
        is_hourly, window = rule.window == timedelta(hours=1), format_duration(rule.window)
        values[f"{name}_limit"] = rule.limit
        values[f"{name}_window"] = "an hour" if is_hourly else window
        values[f"{name}_rate"] = "an hour" if is_hourly else f"in {window}"
    return values


def _format_value(name: str, value: Any) -> Any:
    match value:
        case timedelta():
            return format_duration(value)
        case (timedelta(), *_):
            return format_duration(*value)
        case int() if name.endswith("_bytes"):
            return f"{value // 2**10} KiB" if value % 2**20 else f"{value // 2**20} MiB"
    return value
