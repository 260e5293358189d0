"""API keys: made and shown once, replaced with an overlap, revoked."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import FieldError, InvalidInput, NotFound, RuleBroken
from staffbooking_core.inputs import CreateApiKey, RotateApiKey
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import api_keys
from staffbooking_http.api.security_log import log_security_event
from staffbooking_http.pages.dashboard.access import (
    DASHBOARD_PATH,
    Visit,
    lead_to,
    open_draft,
    open_form,
    open_subscriber_visit,
)
from staffbooking_http.pages.dashboard.forms import (
    FormValues,
    read_values,
    run_once,
    structure_form,
)
from staffbooking_http.pages.session import PageRequest, flash_text

_PATH = f"{DASHBOARD_PATH}/keys"
_KEY_PATH = f"{_PATH}/{{number:str}}"
_FLASH_TEXTS = {"revoked": "The key is revoked: it no longer works."}
_MAX_ENDED_KEYS = 20
"""Keys that no longer work, of which the newest are listed."""

_LIFETIME_DAYS: Mapping[str, int | None] = {"never": None, "30": 30, "90": 90, "365": 365}
_OVERLAP_HOURS = (0, 1, 24, 7 * 24)


@get(_PATH)
async def show_keys(request: PageRequest) -> Template:
    """List the keys, with the form of a new one."""
    visit = await open_subscriber_visit(request)
    return visit.render(
        "keys.html", done=flash_text(visit.call, _FLASH_TEXTS), **await _list_context(visit)
    )


@post(_PATH, status_code=200)
async def create_key(request: PageRequest) -> Template:
    """Make a key and show it, this once."""
    visit, form = await open_draft(request)
    values = read_values(form)
    try:
        await visit.count()
        command = _read_command(visit, values)

        async def work(ports: Ports) -> Mapping[str, Any]:
            key, record = await api_keys.create(ports, visit.user, command)
            _log(visit, "api_key_created", record.id)
            return {"key": key, "id": record.id}

        shown = await run_once(visit, form, work)
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        return visit.render_error("keys.html", error, **await _list_context(visit, values))
    return await _render_new_key(visit, shown)


def _read_command(visit: Visit, values: FormValues) -> CreateApiKey:
    expires_at, faults = _read_expiry(visit.call.now, values)
    given = {
        "name": values.text("name").strip(),
        "permissions": values.texts("permissions"),
        "expires_at": expires_at,
    }
    fillers = {"name": "key", "permissions": [Permission.READ]}
    return structure_form(CreateApiKey, given, fillers, faults)


def _read_expiry(now: datetime, values: FormValues) -> tuple[str | None, list[FieldError]]:
    """When a new key expires, as the interface has it, and the fault of an unknown lifetime."""
    lifetime = values.text("expires")
    if lifetime not in _LIFETIME_DAYS:
        return None, [FieldError("expires", "must be one of these")]
    days = _LIFETIME_DAYS[lifetime]
    return None if days is None else f"{now + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}", []


async def _list_context(visit: Visit, values: FormValues | None = None) -> dict[str, Any]:
    call = visit.call
    keys = await api_keys.list_keys(call.ports, visit.user)
    active = [key for key in keys if key.is_active(call.now)]
    return {
        "keys": active,
        "ended_keys": [key for key in keys if not key.is_active(call.now)][:_MAX_ENDED_KEYS],
        "token": call.ports.ids.token(),
        "name": values.text("name") if values else "",
        "permissions": values.texts("permissions") if values else list(Permission),
        "expires": (values.text("expires") if values else "") or "never",
    }


async def _render_new_key(visit: Visit, shown: Mapping[str, Any], **context: Any) -> Template:
    record = await api_keys.get_key(visit.ports, visit.user, shown["id"])
    return visit.render("key_made.html", secret=shown["key"], record=record, **context)


# Rotation -------------------------------------------------------------------------------


@get(f"{_KEY_PATH}/rotation")
async def show_rotation(request: PageRequest) -> Template:
    """Show what replacing a key does, and ask how long both work."""
    visit = await open_subscriber_visit(request)
    return visit.render("key_rotation.html", **await _rotation_context(visit))


@post(f"{_KEY_PATH}/rotation", status_code=200)
async def rotate_key(request: PageRequest) -> Template:
    """Replace a key and show the new one, this once."""
    visit, form = await open_draft(request)
    values, number = read_values(form), visit.call.path_id("API key")
    try:
        await visit.count()
        command = _read_rotation(visit, values)

        async def work(ports: Ports) -> Mapping[str, Any]:
            key, record, _ = await api_keys.rotate(ports, visit.user, number, command)
            _log(visit, "api_key_rotated", record.id)
            return {"key": key, "id": record.id}

        shown = await run_once(visit, form, work)
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        context = await _rotation_context(visit, values)
        return visit.render_error("key_rotation.html", error, **context)
    replaced = await api_keys.get_key(visit.ports, visit.user, number)
    return await _render_new_key(visit, shown, replaced=replaced)


def _read_rotation(visit: Visit, values: FormValues) -> RotateApiKey:
    expires_at, faults = _read_expiry(visit.call.now, values)
    overlap = values.text("overlap")
    if overlap not in map(str, _OVERLAP_HOURS):
        faults.append(FieldError("overlap", "must be one of these"))
        overlap = "0"
    given = {"overlap_hours": int(overlap), "expires_at": expires_at}
    return structure_form(RotateApiKey, given, {}, faults)


async def _rotation_context(visit: Visit, values: FormValues | None = None) -> dict[str, Any]:
    return {
        "record": await _find_active_key(visit),
        "token": visit.ports.ids.token(),
        "overlap": values.text("overlap") if values else "24",
        "expires": (values.text("expires") if values else "") or "never",
        "overlaps": _OVERLAP_HOURS,
    }


# Revocation -----------------------------------------------------------------------------


@get(f"{_KEY_PATH}/revocation")
async def show_revocation(request: PageRequest) -> Template:
    """Ask whether a key is to be revoked."""
    visit = await open_subscriber_visit(request)
    return visit.render("key_revocation.html", record=await _find_active_key(visit))


@post(f"{_KEY_PATH}/revocation", status_code=200)
async def revoke_key(request: PageRequest) -> Redirect:
    """Revoke a key. This needs no subscription."""
    visit, _ = await open_form(request, needs_subscription=False)
    number = visit.call.path_id("API key")
    await api_keys.revoke(visit.ports, visit.user, number)
    _log(visit, "api_key_revoked", number)
    return lead_to(_PATH, "revoked")


async def _find_active_key(visit: Visit) -> ApiKey:
    """The key in the path. Raises NotFound for one that no longer works."""
    number = visit.call.path_id("API key")
    key = await api_keys.get_key(visit.ports, visit.user, number)
    if not key.is_active(visit.call.now):
        raise NotFound("API key")
    return key


def _log(visit: Visit, event: str, key_id: int) -> None:
    log_security_event(visit.call, event, user_id=visit.user.id, key_id=key_id)


PAGES = (show_keys, create_key, show_rotation, rotate_key, show_revocation, revoke_key)
