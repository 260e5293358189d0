"""A deployment with notifications to send."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import add_user
from staffbooking_core.ports import Ports
from tests.support.memory_deployment import memory_ports
from tests.usecases.notifications.notifiers import CallbackNotifier, add


@pytest.fixture
def notifier() -> CallbackNotifier:
    return CallbackNotifier()


@pytest.fixture
async def ports(notifier: CallbackNotifier) -> Ports:
    """A deployment with three notifications for Ada."""
    made = memory_ports(notifier=notifier)
    await add_user(made.store, email="ada@example.com")
    for subject in ("one", "two", "three"):
        await add(made, subject)
    return made
