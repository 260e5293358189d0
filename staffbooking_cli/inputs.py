"""Inputs that exist only on the command line, validated like the core's inputs."""

from __future__ import annotations

from typing import Annotated

from attrs import field, frozen

from staffbooking_core.bounds import TextBounds, trimmed
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.inputs import EmailAddress, Name, Password
from staffbooking_core.usecases.accounts.administration import CreateUser


@frozen(kw_only=True)
class NewAccount:
    """`users create`: any role, with or without a password."""

    email: EmailAddress
    first_name: Name = field(converter=trimmed)
    last_name: Name = field(converter=trimmed)
    role: Role
    subscription: Subscription
    password: Password | None = field(default=None, repr=False)

    def to_create_user(self) -> CreateUser:
        return CreateUser(
            email=self.email,
            first_name=self.first_name,
            last_name=self.last_name,
            role=self.role,
            password=self.password,
            subscription=self.subscription,
        )


@frozen(kw_only=True)
class OperatorWords:
    """What an operator may say with each change."""

    reason: Annotated[str, TextBounds(300)] | None = None
    by: Name | None = None
