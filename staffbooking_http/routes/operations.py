"""Is it alive, is it ready, what does it do: for whoever runs the service (CONTRACT 9)."""

from staffbooking_adapters import codec
from staffbooking_core.errors import Unavailable
from staffbooking_core.usecases import health
from staffbooking_http.api import metrics
from staffbooking_http.api.access import Unguarded
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import shape
from staffbooking_http.docs import asyncapi

_OK = shape({"status": {"const": "ok"}})
FINE = codec.encode({"status": "ok"})


@endpoint(
    "GET",
    "/healthz",
    Unguarded(),
    summary="Is the process alive?",
    answer=_OK,
)
async def alive(_: Call) -> Reply:
    return Reply(200, FINE)


@endpoint(
    "GET",
    "/readyz",
    Unguarded(),
    summary="Can the service work?",
    description="503 while the database or its schema is not there.",
    answer=_OK,
)
async def ready(call: Call) -> Reply:
    if not await health.ready(call.ports):
        raise Unavailable("not ready")
    return Reply(200, FINE)


@endpoint(
    "GET",
    "/metrics",
    Unguarded(),
    summary="Figures for Prometheus",
    description="Requests by route and status, the channel, due work by kind, and webhooks.",
    answer={"type": "string"},
    media="text/plain",
)
async def figures(call: Call) -> Reply:
    site = call.site
    page = metrics.page(site.tallies, site.traffic, await site.workload.look(call.ports))
    return Reply(200, page, media=b"text/plain; version=0.0.4; charset=utf-8")


@endpoint(
    "GET",
    "/openapi.json",
    Unguarded(),
    summary="This interface as an OpenAPI document",
    answer={"type": "object"},
)
async def openapi(call: Call) -> Reply:
    return Reply(200, call.site.document)


@endpoint(
    "GET",
    "/asyncapi.json",
    Unguarded(),
    summary="The real-time channel as an AsyncAPI document",
    answer={"type": "object"},
)
async def events(call: Call) -> Reply:
    return Reply(200, asyncapi.encoded(call.ports.policy))
