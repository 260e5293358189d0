"""Faults of the simulated processor, which testers arm and disarm."""

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.errors import FieldError, InvalidField
from staffbooking_core.usecases import sandbox
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import SignedOutAccess
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    drop_empty_fields,
    find_visitor,
    get_call,
    has_flash_code,
    render,
    render_error,
)

_FAULTS_PATH = "/sandbox/faults"
_TEMPLATE = "testers/faults.html"
_ARMED, _DISARMED = b"armed", b"disarmed"
_MAX_TIMES = 20
_FEW_DIGITS = re.compile(r"[0-9]{1,2}")

_GROUP_LABELS: Mapping[str, str] = {
    "open_checkout": "Payments",
    "event": "Payments",
    "refund": "Refunds",
    "pay_out": "Payouts",
}
"""The group of faults of each operation, as a message id."""
_LABELS: Mapping[str, str] = {
    "open_checkout refuse": "The page for the payment is refused",
    "open_checkout timeout_before": "The page for the payment does not open in time",
    "open_checkout timeout_after": "The page opens, but its answer is lost",
    "event drop": "The news of a payment is lost",
    "event delay": "The news of a payment comes a minute late",
    "event duplicate": "The news of a payment comes twice",
    "refund refuse": "The refund is refused",
    "refund timeout_before": "The refund does not answer in time",
    "refund pending_then_settled": "The refund takes a minute",
    "refund pending_then_failed": "The refund fails after a minute",
    "pay_out refuse:payee_not_ready": "The payout account is not ready",
    "pay_out refuse": "The payout is refused",
    "pay_out timeout_before": "The payout does not answer in time",
    "pay_out timeout_after": "The payout is made, but its answer is lost",
}
"""The operation and the kind of each fault, and its message id; those of a group are together."""


def _group_of(choice: tuple[str, str]) -> str:
    return _GROUP_LABELS[choice[0].partition(" ")[0]]


_CHOICES = tuple((group, tuple(faults)) for group, faults in groupby(_LABELS.items(), _group_of))
"""Groups of faults: their message id, and their entries of `_LABELS`."""


@frozen(kw_only=True)
class _FaultDraft:
    """The submitted form: a fault of `_LABELS`, and how many calls meet it."""

    fault: DraftText = ""
    times: DraftText = ""


@get(_FAULTS_PATH)
async def show_faults(request: PageRequest) -> Template:
    """Show which faults are armed, and the form that arms one."""
    call = get_call(request)
    visitor = await find_visitor(call)
    context = await _context(call, _FaultDraft(times="1"))
    context["is_armed"] = has_flash_code(call, _ARMED)
    context["is_disarmed"] = has_flash_code(call, _DISARMED)
    return render(_TEMPLATE, visitor, **context)


@post(_FAULTS_PATH, status_code=200)
async def arm_fault(request: PageRequest) -> Template | Redirect:
    """Arm a fault."""
    call = get_call(request)
    await SignedOutAccess().admit(call)
    visitor = await find_visitor(call)
    form = drop_empty_fields(await request_body.read(call))
    draft = query_string.parse_form(_FaultDraft, form)
    if faults := _faults_of(draft):
        context = await _context(call, draft)
        return render_error(_TEMPLATE, visitor, InvalidField(faults), **context)
    op, _, kind = draft.fault.partition(" ")
    await sandbox.require_sandbox(call.ports).add_fault(op, kind, int(draft.times))
    return Redirect(f"{_FAULTS_PATH}?{_ARMED.decode()}", status_code=303)


def _faults_of(draft: _FaultDraft) -> list[FieldError]:
    faults = []
    if draft.fault not in _LABELS:
        faults.append(FieldError("fault", "must be one of these"))
    if not (_FEW_DIGITS.fullmatch(draft.times) and 1 <= int(draft.times) <= _MAX_TIMES):
        faults.append(FieldError("times", f"must be from 1 to {_MAX_TIMES}"))
    return faults


@post(f"{_FAULTS_PATH}/none", status_code=200)
async def disarm_faults(request: PageRequest) -> Redirect:
    """Disarm all faults."""
    call = get_call(request)
    await SignedOutAccess().admit(call)
    await sandbox.require_sandbox(call.ports).clear_faults()
    return Redirect(f"{_FAULTS_PATH}?{_DISARMED.decode()}", status_code=303)


async def _context(call: Call, draft: _FaultDraft) -> dict[str, Any]:
    armed = await sandbox.require_sandbox(call.ports).list_faults()
    return {
        "choices": _CHOICES,
        "draft": draft,
        "armed": [
            (_LABELS.get(f"{fault.op} {fault.kind}", f"{fault.op}: {fault.kind}"), fault.times)
            for fault in armed
        ],
    }


PAGES = (show_faults, arm_fault, disarm_faults)
