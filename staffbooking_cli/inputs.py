"""Inputs that exist only on the command line, validated like the core's inputs."""

from __future__ import annotations

from typing import Annotated

from attrs import frozen

from staffbooking_core.bounds import TextBounds
from staffbooking_core.inputs import Name


@frozen(kw_only=True)
class OperatorWords:
    """What an operator may say with each change."""

    reason: Annotated[str, TextBounds(300)] | None = None
    by: Name | None = None
