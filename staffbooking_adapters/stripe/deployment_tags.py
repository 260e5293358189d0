"""Tags that distinguish our objects at Stripe from those of other deployments on the same account.

The deployment's name is in the metadata of every object, in transfer groups and in idempotency
keys. Tags contain no personal data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from staffbooking_core.domain.payments.processor import OperationKey

_NUMBER_PATTERN = re.compile(r"\d{1,18}", re.ASCII)


@frozen
class DeploymentTags:
    """The tags of one deployment. `environment` is its name, `is_live` whether it moves real
    money."""

    environment: str
    is_live: bool

    def idempotency_key(self, text: str) -> str:
        """An idempotency key of this deployment."""
        return f"sb_{self.environment}_{text}"

    def transfer_group(self, intent_id: int) -> str:
        """The transfer group of an intent, by which its payouts are found without a reference."""
        return f"{self._transfer_group_prefix}{intent_id}"

    @property
    def _transfer_group_prefix(self) -> str:
        return f"sb_{self.environment}_intent_"

    def metadata(self, key: OperationKey) -> dict[str, str]:
        """The metadata of an object made by an operation; an intent's id is its booking's."""
        return {
            "sb_env": self.environment,
            "intent_id": str(key.intent_id),
            "booking_id": str(key.intent_id),
            "op_id": str(key.op_id),
        }

    def is_foreign(self, metadata: Mapping[str, Any]) -> bool:
        """Whether another deployment made the object; objects made by hand have no name."""
        return bool(metadata.get("sb_env", self.environment) != self.environment)

    def find_intent_id(self, metadata: Mapping[str, Any]) -> int | None:
        return self._own_number(metadata, "intent_id")

    def find_op_id(self, metadata: Mapping[str, Any]) -> int | None:
        """The id of the operation that made the object; None for objects made by hand."""
        return self._own_number(metadata, "op_id")

    def _own_number(self, metadata: Mapping[str, Any], name: str) -> int | None:
        if metadata.get("sb_env") != self.environment:
            return None
        return _parse_number(metadata.get(name))

    def find_intent_id_by_group(self, group: Any) -> int | None:
        if not isinstance(group, str) or not group.startswith(self._transfer_group_prefix):
            return None
        return _parse_number(group.removeprefix(self._transfer_group_prefix))


def _parse_number(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and _NUMBER_PATTERN.fullmatch(text) else None
