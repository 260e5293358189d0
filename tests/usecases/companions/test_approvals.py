"""Approvals of companions by operators."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import add_companion, add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.usecases.companions import approvals

pytestmark = pytest.mark.anyio


async def listed(scene, companion_id):
    async with scene.ports.store.read_view() as view:
        return (await view.companions.companion(companion_id)).is_listed


async def test_an_approval_lists_and_a_suspension_hides(scene):
    """Approval lists a companion and suspension hides it; an unknown one is not found."""
    number = scene.staff.user_id
    await approvals.set_approval(scene.ports, number, Approval.SUSPENDED)
    assert not await listed(scene, number)
    await approvals.set_approval(scene.ports, number, Approval.APPROVED)
    assert await listed(scene, number)
    with pytest.raises(NotFound):
        await approvals.set_approval(scene.ports, 999, Approval.APPROVED)


async def test_a_companion_without_a_profile_is_a_draft(scene):
    """A newly registered staff member is read as a draft; a customer is not found."""
    user = await add_user(scene.ports.store, role=Role.STAFF)
    draft = await approvals.get_companion(scene.ports, user.id)
    assert (draft.id, draft.approval) == (user.id, Approval.PENDING)
    with pytest.raises(NotFound):
        await approvals.get_companion(scene.ports, scene.customer.user_id)


async def test_companions_are_listed_for_operators(scene):
    """Companions are listed, hidden ones too."""
    await add_companion(scene.ports.store, approval=Approval.PENDING)
    assert len(await approvals.list_companions(scene.ports)) == 2


async def test_a_decision_counts_for_the_approval_that_was_shown(scene):
    """An approval that was shown as pending is refused once another operator has suspended it."""
    number = scene.staff.user_id
    await approvals.set_approval(scene.ports, number, Approval.SUSPENDED)
    with pytest.raises(RuleBroken) as refused:
        await approvals.set_approval(scene.ports, number, Approval.APPROVED, Approval.PENDING)
    assert refused.value.code == "already_decided"
    await approvals.set_approval(scene.ports, number, Approval.APPROVED, Approval.SUSPENDED)
    assert await listed(scene, number)
