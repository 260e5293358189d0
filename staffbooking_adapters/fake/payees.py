"""Payees of the fake processor: one account for each companion, however often it is opened."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from attrs import frozen

from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.ports import PayeePage

LINK_LIFETIME: Final = timedelta(minutes=5)
"""As a real one's; yet the page is still shown afterwards."""


@frozen
class FakePayee:
    """Until it is opened it has no `ref`. `version` counts how often it became ready or ceased
    to be."""

    companion_id: int
    ready: bool
    ref: str = ""
    name: str = ""
    return_url: str = ""
    version: int = 0

    @property
    def state(self) -> PayeeState:
        return PayeeState(self.ref, self.ready, needs=() if self.ready else ("details",))

    @property
    def page(self) -> PayeePage:
        return PayeePage(self.ref, self.name, self.ready, self.return_url)
