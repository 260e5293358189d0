"""Liveness, readiness and metrics, for operators (CONTRACT 9)."""

from typing import Literal

from staffbooking_adapters import codec
from staffbooking_core.errors import ClockWrong, StoreUnavailable
from staffbooking_http.api import metrics
from staffbooking_http.api.access import PublicAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.errors import unavailable_reply
from staffbooking_http.api.response_schemas import reply_schema
from staffbooking_http.docs import asyncapi

_OK_SCHEMA = reply_schema("Health", status=Literal["ok"])
OK_BODY = codec.encode({"status": "ok"})


@endpoint(
    "GET",
    "/healthz",
    PublicAccess(),
    operation_id="checkLiveness",
    summary="Is the process alive?",
    response_schema=_OK_SCHEMA,
)
async def check_liveness(_: Call) -> Reply:
    return Reply(200, OK_BODY)


@endpoint(
    "GET",
    "/readyz",
    PublicAccess(),
    operation_id="checkReadiness",
    summary="Can the service work?",
    description="503 while the database or its schema is missing, the database takes no changes, "
    "or the clock of the machine is wrong: then the error names the clock.",
    response_schema=_OK_SCHEMA,
)
async def check_readiness(call: Call) -> Reply:
    match await call.site.readiness_check.run(call.ports):
        case None:
            return Reply(200, OK_BODY)
        case ClockWrong() as error:
            return unavailable_reply(f"Not ready: {error.reason}")
        case StoreUnavailable() as error:
            raise error


@endpoint(
    "GET",
    "/metrics",
    PublicAccess(),
    operation_id="getMetrics",
    summary="Metrics for Prometheus",
    description="Requests by route and status, the channel, due work by kind, webhooks, and the "
    "difference between the machine's clock and the database's.",
    response_schema={"type": "string"},
    response_media_type="text/plain",
)
async def read_metrics(call: Call) -> Reply:
    site = call.site
    page = metrics.render_metrics(
        site.request_metrics,
        site.channel_metrics,
        site.load_metrics,
        await site.backlog_cache.get(call.ports),
        call.ports.clock.skew(),
    )
    return Reply(200, page, media_type=b"text/plain; version=0.0.4; charset=utf-8")


@endpoint(
    "GET",
    "/openapi.json",
    PublicAccess(),
    operation_id="getOpenApi",
    summary="This interface as an OpenAPI document",
    response_schema={"type": "object"},
)
async def read_openapi(call: Call) -> Reply:
    return Reply(200, call.site.encode_openapi())


@endpoint(
    "GET",
    "/asyncapi.json",
    PublicAccess(),
    operation_id="getAsyncApi",
    summary="The real-time channel as an AsyncAPI document",
    response_schema={"type": "object"},
)
async def read_asyncapi(call: Call) -> Reply:
    return Reply(200, asyncapi.encode_document(call.ports.policy))
