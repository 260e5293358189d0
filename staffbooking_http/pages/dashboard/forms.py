"""Forms of the subscribers' pages: fields with several values, all faults at once, and secrets that
are shown once."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs

from attrs import evolve, frozen

from staffbooking_adapters import codec
from staffbooking_adapters.inputs import structure
from staffbooking_core.errors import (
    FieldError,
    InvalidField,
    InvalidInput,
    MissingField,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.idempotency import Response
from staffbooking_http.pages.dashboard.access import Visit
from staffbooking_http.pages.session import form_call

T = TypeVar("T")

_MAX_TOKEN_LENGTH = 100


@frozen
class FormValues:
    """The values of a form as they were sent."""

    values: Mapping[str, list[str]]

    def text(self, name: str) -> str:
        """The value of a field; of several the first."""
        return self.values.get(name, [""])[0]

    def texts(self, name: str) -> list[str]:
        """The values of a field that may have several, such as checkboxes of one name."""
        return self.values.get(name, [])


def read_values(form: bytes) -> FormValues:
    return FormValues(parse_qs(form.decode("latin-1"), errors="replace"))


def structure_form(
    cls: type[T],
    given: Mapping[str, Any],
    fillers: Mapping[str, Any],
    further: Iterable[FieldError] = (),
) -> T:
    """Convert the values of a form to an input. `fillers` are valid values of required fields, so
    that the other fields are checked where one of them is missing.

    Raises MissingField or InvalidField with all faults, `further` ones too.
    """
    present = {name: value for name, value in given.items() if value not in ("", [])}
    faults: dict[str, FieldError] = {}
    kind: type[InvalidInput] = InvalidField
    made: T | None = None
    try:
        made = structure(cls, present)
    except MissingField as missing:
        kind = MissingField
        faults |= {each.field: each for each in missing.field_errors}
        faults |= _invalid_fields(cls, {**fillers, **present})
    except InvalidField as invalid:
        faults |= _by_form_field(invalid)
    for fault in further:
        faults.setdefault(fault.field, fault)
    if made is None or faults:
        raise kind(faults.values())
    return made


def _invalid_fields(cls: type[T], filled: Mapping[str, Any]) -> dict[str, FieldError]:
    try:
        structure(cls, filled)
    except InvalidInput as invalid:
        return _by_form_field(invalid)
    return {}


def _by_form_field(error: InvalidInput) -> dict[str, FieldError]:
    """Faults by field; that of an element stands at its list."""
    faults: dict[str, FieldError] = {}
    for each in error.field_errors:
        name = each.field.partition(".")[0]
        faults.setdefault(name, FieldError(name, each.message))
    return faults


async def run_once(
    visit: Visit, form: bytes, work: Callable[[Ports], Awaitable[Mapping[str, Any]]]
) -> Mapping[str, Any]:
    """Do what a form asks for once for its `token`, and return what the page shows of it. A form
    that is sent again, by a double click or a reload, gets the same, secrets too.

    Raises RuleBroken `idempotency_mismatch` where the token was used for another form.
    """
    token = read_values(form).text("token")[:_MAX_TOKEN_LENGTH] or visit.ports.ids.token()
    once = evolve(form_call(visit.visitor, token, form), shows_secret=True)
    path = visit.call.scope["path"].encode()
    once = evolve(once, fingerprint=hashlib.sha256(path + b"\0" + once.fingerprint).digest())

    async def handle(ports: Ports) -> Response:
        return Response(200, codec.encode(dict(await work(ports))))

    response = await idempotency.run(visit.ports, once, handle, _raise_errors)
    shown: Mapping[str, Any] = codec.decode(response.body)
    return shown


def _raise_errors(_: Exception) -> Response | None:
    return None
