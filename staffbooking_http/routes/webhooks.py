"""The user's own webhook endpoints, their deliveries, and the pull feed (CONTRACT 7).

Admins, too, see only their own endpoints; operators manage all of them at the command line.
"""

from typing import Annotated

from staffbooking_adapters import codec
from staffbooking_adapters.codec import RawJson
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.inputs import ChangeWebhook, CreateWebhook
from staffbooking_core.representations.events import EventRecord
from staffbooking_core.representations.json_types import (
    JsonSchema,
    Success,
    Timestamp,
    format_instant,
)
from staffbooking_core.representations.webhooks import (
    DeliveryRecord,
    TrialDeliveryRecord,
    WebhookRecord,
    delivery_record,
    webhook_record,
    webhook_test_record,
)
from staffbooking_core.usecases.accounts.api_keys import check_subscription
from staffbooking_core.usecases.webhooks import delivery_log, endpoints, feed
from staffbooking_http.api.access import ApiKeyOrSessionAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ListDeliveries, ReadEvents
from staffbooking_http.api.response_schemas import (
    reply_schema,
)

_RESOURCE_NAME = "Webhook"
_READ_ACCESS = ApiKeyOrSessionAccess(
    Permission.READ, check_subscription, replacing_rate_limit_name="webhooks"
)
_WRITE_ACCESS = ApiKeyOrSessionAccess(
    Permission.BOOK, check_subscription, replacing_rate_limit_name="webhooks"
)

_Event = Annotated[EventRecord, JsonSchema(title="Event")]
_Secret = Annotated[str, JsonSchema(pattern="^whsec_", examples=["whsec_7q2m4x9t6hvc"])]
_WEBHOOK_REPLY_SCHEMA = reply_schema("WebhookReply", success=Success, webhook=WebhookRecord)


async def _check_owner(call: Call) -> Reply:
    await endpoints.authorize(call.ports, call.user, call.path_id(_RESOURCE_NAME))
    return Reply(200)


# Endpoints ------------------------------------------------------------------------------


@endpoint(
    "POST",
    "/api/webhooks",
    _WRITE_ACCESS,
    operation_id="createWebhook",
    summary="Register a webhook endpoint",
    shows_secret=True,
    description=(
        "An https URL of a public address. It gets the events of bookings that you are a party "
        "of or created: those in `events`, by default the first five. The secret is shown only "
        "in this response. With `ordered`, an event waits until the earlier ones of its booking "
        "are delivered, have failed or were cancelled. A user has at most {max_webhooks}."
    ),
    body=CreateWebhook,
    status=201,
    response_schema=reply_schema(
        "NewWebhook", success=Success, webhook=WebhookRecord, secret=_Secret
    ),
    rule_codes=("too_many_webhooks",),
)
async def register_webhook(call: Call) -> Reply:
    added, secret = await endpoints.register_endpoint(call.ports, call.user, call.parsed_input)
    answer = {"success": True, "webhook": webhook_record(added), "secret": secret}
    return Reply(201, codec.encode(answer))


@endpoint(
    "GET",
    "/api/webhooks",
    _READ_ACCESS,
    operation_id="listWebhooks",
    summary="List your webhook endpoints",
    description="The oldest first.",
    response_schema=reply_schema("WebhookList", webhooks=list[WebhookRecord]),
)
async def list_webhooks(call: Call) -> Reply:
    found = await endpoints.list_endpoints(call.ports, call.user)
    return Reply(200, codec.encode({"webhooks": [webhook_record(each) for each in found]}))


@endpoint(
    "PATCH",
    "/api/webhooks/{id}",
    _WRITE_ACCESS,
    operation_id="updateWebhook",
    summary="Change, pause or enable a webhook endpoint",
    description=(
        "Absent fields keep their values; an empty `description` removes it. With `active` false "
        "its deliveries are held, for at most {webhook_held_retention}; activated again, also "
        "after it was disabled, it gets them, and its failure count is reset."
    ),
    body=ChangeWebhook,
    check_target=_check_owner,
    response_schema=_WEBHOOK_REPLY_SCHEMA,
    not_found_name=_RESOURCE_NAME,
)
async def change_webhook(call: Call) -> Reply:
    changed = await endpoints.update_endpoint(
        call.ports, call.user, call.path_id(_RESOURCE_NAME), call.parsed_input
    )
    return Reply(200, codec.encode({"success": True, "webhook": webhook_record(changed)}))


@endpoint(
    "DELETE",
    "/api/webhooks/{id}",
    _WRITE_ACCESS,
    operation_id="deleteWebhook",
    summary="Delete a webhook endpoint",
    description="Its undelivered deliveries are cancelled.",
    check_target=_check_owner,
    response_schema=reply_schema("Success", success=Success),
    not_found_name=_RESOURCE_NAME,
)
async def delete_webhook(call: Call) -> Reply:
    await endpoints.delete_endpoint(call.ports, call.user, call.path_id(_RESOURCE_NAME))
    return Reply(200, codec.encode({"success": True}))


# Secrets --------------------------------------------------------------------------------


@endpoint(
    "POST",
    "/api/webhooks/{id}/rotate-secret",
    _WRITE_ACCESS,
    operation_id="rotateWebhookSecret",
    summary="Create a new secret",
    check_target=_check_owner,
    shows_secret=True,
    description=(
        "It is shown only in this response. Until `previous_valid_until`, or until it is "
        "activated, `X-Webhook-Signature` uses the old secret and `webhook-signature` both."
    ),
    response_schema=reply_schema(
        "NewSecret", success=Success, secret=_Secret, previous_valid_until=Timestamp
    ),
    not_found_name=_RESOURCE_NAME,
)
async def rotate_secret(call: Call) -> Reply:
    secret, until = await endpoints.rotate_secret(
        call.ports, call.user, call.path_id(_RESOURCE_NAME)
    )
    answer = {"success": True, "secret": secret, "previous_valid_until": format_instant(until)}
    return Reply(200, codec.encode(answer))


@endpoint(
    "POST",
    "/api/webhooks/{id}/activate-secret",
    _WRITE_ACCESS,
    operation_id="activateWebhookSecret",
    summary="Sign with the new secret only, from now on",
    check_target=_check_owner,
    response_schema=_WEBHOOK_REPLY_SCHEMA,
    rule_codes=("no_rotation",),
    not_found_name=_RESOURCE_NAME,
)
async def activate_secret(call: Call) -> Reply:
    changed = await endpoints.activate_secret(call.ports, call.user, call.path_id(_RESOURCE_NAME))
    return Reply(200, codec.encode({"success": True, "webhook": webhook_record(changed)}))


# Deliveries -----------------------------------------------------------------------------


@endpoint(
    "POST",
    "/api/webhooks/{id}/test",
    _WRITE_ACCESS,
    operation_id="tryWebhook",
    summary="Send a test event now",
    check_target=_check_owner,
    calls_services=True,
    description=(
        "One attempt, even if the endpoint is paused or disabled; a failure is not counted. "
        "`success` says whether it was received."
    ),
    response_schema=reply_schema("TrialDeliveryReply", success=bool, delivery=TrialDeliveryRecord),
    not_found_name=_RESOURCE_NAME,
)
async def send_test_event(call: Call) -> Reply:
    sent = await delivery_log.send_test_event(call.ports, call.user, call.path_id(_RESOURCE_NAME))
    attempt = sent.attempts[-1]
    delivery = webhook_test_record(sent.delivery, attempt)
    return Reply(200, codec.encode({"success": attempt.error is None, "delivery": delivery}))


@endpoint(
    "GET",
    "/api/webhooks/{id}/deliveries",
    _READ_ACCESS,
    operation_id="listDeliveries",
    summary="List the deliveries of a webhook endpoint",
    description="The newest first, each with its attempts. They are kept for "
    "{webhook_delivery_retention}.",
    query=ListDeliveries,
    check_target=_check_owner,
    response_schema=reply_schema("DeliveryPage", deliveries=list[DeliveryRecord], has_more=bool),
    not_found_name=_RESOURCE_NAME,
)
async def list_deliveries(call: Call) -> Reply:
    page, limit = call.parsed_input.page, call.parsed_input.limit
    number = call.path_id(_RESOURCE_NAME)
    found, has_more = await delivery_log.list_deliveries(call.ports, call.user, number, page, limit)
    records = [delivery_record(each.delivery, each.attempts) for each in found]
    return Reply(200, codec.encode({"deliveries": records, "has_more": has_more}))


async def _check_delivery(call: Call) -> Reply:
    await delivery_log.get_delivery(
        call.ports, call.user, call.path_id("Delivery"), call.path_id("Delivery", 1)
    )
    return Reply(200)


@endpoint(
    "POST",
    "/api/webhooks/{id}/deliveries/{delivery_id}/redeliver",
    _WRITE_ACCESS,
    operation_id="redeliver",
    summary="Redeliver an event",
    check_target=_check_delivery,
    description=(
        "The same id and bytes, with the usual retries, at once, or when the endpoint is active "
        "again. A failure is not counted. A delivery that is still pending is left unchanged."
    ),
    response_schema=reply_schema("DeliveryReply", success=Success, delivery=DeliveryRecord),
    not_found_name="Delivery",
)
async def redeliver(call: Call) -> Reply:
    number, delivery_id = call.path_id("Delivery"), call.path_id("Delivery", 1)
    ordered = await delivery_log.redeliver(call.ports, call.user, delivery_id, number)
    record = delivery_record(ordered.delivery, ordered.attempts)
    return Reply(200, codec.encode({"success": True, "delivery": record}))


# The pull feed --------------------------------------------------------------------------


@endpoint(
    "GET",
    "/api/events",
    ApiKeyOrSessionAccess(Permission.READ, check_subscription),
    operation_id="listEvents",
    summary="Read the events that webhooks deliver",
    description=(
        "The events of your bookings, for admins of all; the oldest first: the first five kinds, "
        "and those that one of your endpoints names. Pass the id of the last one as `after` for "
        "the next page: no event is ever inserted before one that was returned."
    ),
    query=ReadEvents,
    response_schema=reply_schema("EventPage", events=list[_Event], has_more=bool),
    rule_codes=("unknown_event",),
)
async def list_events(call: Call) -> Reply:
    wanted: ReadEvents = call.parsed_input
    found, has_more = await feed.read_feed(call.ports, call.user, wanted.after, wanted.limit)
    answer = {"events": [*map(RawJson, found)], "has_more": has_more}
    return Reply(200, codec.encode(answer))
