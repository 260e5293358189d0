"""Payees of the fake processor: one account per companion. Opening is idempotent."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from attrs import frozen

from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.ports import PayeePage

LINK_LIFETIME: Final = timedelta(minutes=5)
"""The lifetime of an onboarding link. The page itself stays available afterwards."""


@frozen
class FakePayee:
    """A payee account; `ref` is empty until it is opened. `version` counts changes of `ready`."""

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
