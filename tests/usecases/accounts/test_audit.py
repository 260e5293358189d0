"""Changes on audited ports leave exactly one entry, in the transaction of the change."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import NOW, add_user
from staffbooking_core.domain.accounts.audit import AuditSubject, Operator
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration, audit
from staffbooking_core.usecases.payments import payouts
from tests.support.memory_deployment import make_booking_scenario, memory_ports

pytestmark = pytest.mark.anyio


def audited(ports: Ports, subject: AuditSubject, subject_id: int | str, act: str) -> Ports:
    operator = Operator(None, "ana", "cli")
    return audit.audited_ports(
        ports,
        audit.OperatorAct(
            operator=operator, act=act, subject=subject, subject_id=subject_id, reason="odd"
        ),
    )


async def test_a_change_has_one_entry() -> None:
    """A change of one transaction has one entry with the time of the change."""
    ports = memory_ports()
    user = await add_user(ports.store)
    await administration.enable_user(
        audited(ports, AuditSubject.PERSON, user.id, "enable"), user.email
    )
    [entry] = await audit.list_audit_entries(ports)
    assert (entry.at, entry.act, entry.subject_id) == (NOW, "enable", str(user.id))


async def test_a_change_of_several_transactions_has_one_entry() -> None:
    """A retried payout runs several transactions, and has one entry."""
    scene = await make_booking_scenario()
    booking = await scene.completed()
    await scene.fault("pay_out", "refuse")
    await scene.jump_to(booking.ends_at + 2 * (booking.ends_at - booking.starts_at) * 6)
    await scene.drain()
    ports = audited(scene.ports, AuditSubject.PAYOUT, booking.code, "retry")
    await payouts.retry_payout(ports, booking.code)
    [entry] = await audit.list_audit_entries(scene.ports)
    assert (entry.act, entry.subject_id) == ("retry", booking.code)


async def test_a_refused_change_has_none() -> None:
    """A change that a rule forbids is rolled back with its entry."""
    scene = await make_booking_scenario()
    booking = await scene.paid()
    with pytest.raises(RuleBroken):
        await payouts.release_payout(
            audited(scene.ports, AuditSubject.PAYOUT, booking.code, "release"), booking.code
        )
    assert await audit.list_audit_entries(scene.ports) == []


async def test_a_name_may_be_an_address() -> None:
    """An admin's address finds their own entries, and those of a command that was given it."""
    ports = memory_ports()
    admin = await add_user(ports.store, role=Role.ADMIN)
    for operator in (Operator(admin.id, None, "127.0.0.1"), Operator(None, admin.email, "cli")):
        act = audit.OperatorAct(
            operator=operator,
            act="enable",
            subject=AuditSubject.PERSON,
            subject_id=admin.id,
            reason=None,
        )
        await administration.enable_user(audit.audited_ports(ports, act), admin.email)
    entries = await audit.list_audit_entries(ports, actor=admin.email)
    assert [each.origin for each in entries] == ["cli", "127.0.0.1"]
