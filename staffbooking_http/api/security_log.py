"""Security events in the log: refused sign-ins and rights, locked accounts, keys (CONTRACT 10).

Each is a record of the logger `staffbooking.security` with the request's id and the client's
address, never with a password, key, token or cookie. Floods are sampled
(`staffbooking_adapters.logs.FloodSampler`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from staffbooking_adapters.logs import SECURITY_LOGGER_NAME
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import Forbidden, Unauthenticated
from staffbooking_core.usecases.accounts.login_throttling import email_subject
from staffbooking_http.api.addresses import client_address_key
from staffbooking_http.api.endpoint import Call

_log = logging.getLogger(SECURITY_LOGGER_NAME)

BAD_CREDENTIALS = "bad_credentials"


def log_security_event(call: Call, event: str, **fields: object) -> None:
    """Log an event of a call."""
    _log.warning(event, extra={"address": client_address_key(call), **fields})


def log_refusal(call: Call, error: Exception) -> None:
    """Log that a call was refused for its credentials or its rights; other errors are no security
    events. `watch_sign_in` logs wrong passwords."""
    if isinstance(error, Unauthenticated | Forbidden) and error.code != BAD_CREDENTIALS:
        event = "credentials_refused" if isinstance(error, Unauthenticated) else "right_refused"
        actor = getattr(call, "actor", None)
        user_id = None if actor is None else actor.user_id
        log_security_event(call, event, code=error.code, user_id=user_id, path=call.scope["path"])


@contextmanager
def watch_sign_in(call: Call, email: str) -> Iterator[None]:
    """Log a sign-in that is refused, or refused for too many failures. The e-mail appears as the
    digest under which its failures are counted."""
    try:
        yield
    except (Unauthenticated, RateLimitExceeded) as error:
        locked = isinstance(error, RateLimitExceeded)
        event = "sign_in_locked_out" if locked else "sign_in_refused"
        log_security_event(call, event, email_digest=email_subject(call.ports, email)[:16])
        raise
