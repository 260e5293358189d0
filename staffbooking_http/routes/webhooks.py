"""Webhook endpoints of one's own, their deliveries, and the pull feed (CONTRACT 7).

Admins too have only their own here: everybody's are for operators, at the command line.
"""

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.inputs import ChangeWebhook, CreateWebhook
from staffbooking_core.representations.records import delivery_record, instant, webhook_record
from staffbooking_core.usecases.accounts.api_keys import check_subscription
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_http.api.access import WithEither
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ListDeliveries, ReadEvents
from staffbooking_http.api.response_schemas import (
    FLAG,
    INSTANT,
    SUCCESS,
    Schema,
    event_ref,
    items,
    ref,
    shape,
)

_WHAT = "Webhook"
_LOOK = WithEither(Permission.READ, check_subscription, window="webhooks")
_CHANGE = WithEither(Permission.BOOK, check_subscription, window="webhooks")

_SECRET: Schema = {"type": "string", "pattern": "^whsec_"}
_DONE = shape({"success": SUCCESS, "webhook": ref("Webhook")})


async def _find(call: Call) -> Reply:
    await endpoints.authorize(call.ports, call.user, call.path_id(_WHAT))
    return Reply(200)


# Endpoints ------------------------------------------------------------------------------


@endpoint(
    "POST",
    "/api/webhooks",
    _CHANGE,
    summary="Register a webhook endpoint",
    description=(
        "An https URL that leads to public addresses. It gets the events of bookings that you "
        "are a party of or made; all five unless `events` says which. The secret is shown this "
        "once. A user has at most 10."
    ),
    body=CreateWebhook,
    status=201,
    answer=shape({"success": SUCCESS, "webhook": ref("Webhook"), "secret": _SECRET}),
    codes=("too_many_webhooks",),
)
async def register(call: Call) -> Reply:
    added, secret = await endpoints.register(call.ports, call.user, call.given)
    answer = {"success": True, "webhook": webhook_record(added), "secret": secret}
    return Reply(201, codec.encode(answer))


@endpoint(
    "GET",
    "/api/webhooks",
    _LOOK,
    summary="List your webhook endpoints",
    description="The oldest first.",
    answer=shape({"webhooks": items(ref("Webhook"))}),
)
async def listing(call: Call) -> Reply:
    found = await endpoints.listing(call.ports, call.user)
    return Reply(200, codec.encode({"webhooks": [webhook_record(each) for each in found]}))


@endpoint(
    "PATCH",
    "/api/webhooks/{id}",
    _CHANGE,
    summary="Change, pause or enable a webhook endpoint",
    description=(
        "What is not given stays; an empty `description` takes it away. Without `active` its "
        "deliveries are held, for 7 days at most; made active again, also after it was disabled, "
        "it gets them, and its count of failures starts anew."
    ),
    body=ChangeWebhook,
    find=_find,
    answer=_DONE,
    not_found=_WHAT,
)
async def change(call: Call) -> Reply:
    changed = await endpoints.change(call.ports, call.user, call.path_id(_WHAT), call.given)
    return Reply(200, codec.encode({"success": True, "webhook": webhook_record(changed)}))


@endpoint(
    "DELETE",
    "/api/webhooks/{id}",
    _CHANGE,
    summary="Delete a webhook endpoint",
    description="What has not been sent to it is cancelled.",
    answer=shape({"success": SUCCESS}),
    not_found=_WHAT,
)
async def delete(call: Call) -> Reply:
    await endpoints.delete(call.ports, call.user, call.path_id(_WHAT))
    return Reply(200, codec.encode({"success": True}))


# Secrets --------------------------------------------------------------------------------


@endpoint(
    "POST",
    "/api/webhooks/{id}/rotate-secret",
    _CHANGE,
    summary="Make a new secret",
    description=(
        "It is shown this once. Until `previous_valid_until`, or until it is activated, "
        "`X-Webhook-Signature` is still by the old secret, and `webhook-signature` by both."
    ),
    answer=shape({"success": SUCCESS, "secret": _SECRET, "previous_valid_until": INSTANT}),
    not_found=_WHAT,
)
async def rotate_secret(call: Call) -> Reply:
    secret, until = await endpoints.rotate_secret(call.ports, call.user, call.path_id(_WHAT))
    answer = {"success": True, "secret": secret, "previous_valid_until": instant(until)}
    return Reply(200, codec.encode(answer))


@endpoint(
    "POST",
    "/api/webhooks/{id}/activate-secret",
    _CHANGE,
    summary="Sign with the new secret alone, from now on",
    answer=_DONE,
    codes=("no_rotation",),
    not_found=_WHAT,
)
async def activate_secret(call: Call) -> Reply:
    changed = await endpoints.activate_secret(call.ports, call.user, call.path_id(_WHAT))
    return Reply(200, codec.encode({"success": True, "webhook": webhook_record(changed)}))


# Deliveries -----------------------------------------------------------------------------


@endpoint(
    "POST",
    "/api/webhooks/{id}/test",
    _CHANGE,
    summary="Send a test event now",
    description=(
        "One attempt, also where the endpoint is paused or disabled; its failure counts "
        "nowhere. `success` says whether it was received."
    ),
    answer=shape({"success": FLAG, "delivery": ref("TestDelivery")}),
    not_found=_WHAT,
)
async def test(call: Call) -> Reply:
    sent = await endpoints.send_test(call.ports, call.user, call.path_id(_WHAT))
    attempt = sent.attempts[-1]
    delivery = {
        "id": sent.delivery.id,
        "status": sent.delivery.status,
        "response_status": attempt.response_status,
        "duration_ms": attempt.duration_ms,
        "error": attempt.error,
    }
    return Reply(200, codec.encode({"success": attempt.error is None, "delivery": delivery}))


@endpoint(
    "GET",
    "/api/webhooks/{id}/deliveries",
    _LOOK,
    summary="List the deliveries of a webhook endpoint",
    description="The newest first, each with its attempts. They are kept for 30 days.",
    query=ListDeliveries,
    find=_find,
    answer=shape({"deliveries": items(ref("Delivery")), "has_more": FLAG}),
    not_found=_WHAT,
)
async def deliveries(call: Call) -> Reply:
    page, limit = call.given.page, call.given.limit
    number = call.path_id(_WHAT)
    found, has_more = await endpoints.deliveries_of(call.ports, call.user, number, page, limit)
    records = [delivery_record(each.delivery, each.attempts) for each in found]
    return Reply(200, codec.encode({"deliveries": records, "has_more": has_more}))


@endpoint(
    "POST",
    "/api/webhooks/{id}/deliveries/{delivery_id}/redeliver",
    _CHANGE,
    summary="Send an event once more",
    description=(
        "The same id and bytes, with the usual retries, at once: or once the endpoint is active "
        "again. It never counts as a failure. One that is still on its way is left as it is."
    ),
    answer=shape({"success": SUCCESS, "delivery": ref("Delivery")}),
    not_found="Delivery",
)
async def redeliver(call: Call) -> Reply:
    number, delivery_id = call.path_id("Delivery"), call.path_id("Delivery", 1)
    ordered = await endpoints.redeliver(call.ports, call.user, delivery_id, number)
    record = delivery_record(ordered.delivery, ordered.attempts)
    return Reply(200, codec.encode({"success": True, "delivery": record}))


# The pull feed --------------------------------------------------------------------------


@endpoint(
    "GET",
    "/api/events",
    WithEither(Permission.READ, check_subscription),
    summary="Read the events that webhooks tell of",
    description=(
        "Your own, an admin's are all; the oldest first. Ask again with the id of the last one "
        "as `after`: what a receiver missed is here, and nothing ever slips in before."
    ),
    query=ReadEvents,
    answer=shape(
        {"events": items({"anyOf": [event_ref(event) for event in EventName]}), "has_more": FLAG}
    ),
    codes=("unknown_event",),
)
async def feed(call: Call) -> Reply:
    wanted: ReadEvents = call.given
    found, has_more = await endpoints.feed(call.ports, call.user, wanted.after, wanted.limit)
    more = codec.encode(has_more)
    return Reply(200, b'{"events":[' + b",".join(found) + b'],"has_more":' + more + b"}")
