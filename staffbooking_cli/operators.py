"""Runs a command that changes something as an operator, so that it is in the audit."""

from __future__ import annotations

import getpass
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

T = TypeVar("T")
Subject = Literal[
    "person",
    "api_key",
    "companion",
    "portfolio_item",
    "review",
    "webhook",
    "delivery",
    "dispute",
    "payout",
    "refund",
    "inquiry",
]
"""The core's values, so that help does not load the core; a test compares them."""

_ORIGIN = "cli"


def run_operator_command(
    work: Callable[[Ports], Awaitable[T]],
    act: str,
    subject: Subject,
    subject_id: int | str | None,
    *,
    reason: str | None,
    by: str | None,
) -> T:
    """Run a command's work on ports that add its audit entry, and return its result.

    A person is given by e-mail; `subject_id` None is something new, whose id the work returns.
    """
    from staffbooking_adapters.inputs import structure
    from staffbooking_cli.inputs import OperatorWords
    from staffbooking_core.domain.accounts.audit import AuditSubject, Operator
    from staffbooking_core.usecases.accounts import administration, audit

    words = structure(OperatorWords, {"reason": reason, "by": by})
    kind = AuditSubject(subject)

    async def audited(ports: Ports) -> T:
        number = subject_id
        if kind is AuditSubject.PERSON and isinstance(subject_id, str):
            number = (await administration.get_user(ports, subject_id)).id
        operator = Operator(None, words.by or _system_user(), _ORIGIN)
        return await work(
            audit.audited_ports(
                ports,
                audit.OperatorAct(
                    operator=operator,
                    act=act,
                    subject=kind,
                    subject_id=number,
                    reason=words.reason,
                ),
            )
        )

    return run_command(audited)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # The user id has no name, as in some containers.
        return str(os.getuid())
