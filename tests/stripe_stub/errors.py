"""Stripe's error responses."""

from __future__ import annotations

from typing import Any


class StripeApiError(Exception):
    """An error response.

    `kind` is the error's `type`; `code` and `param` are optional, as at Stripe.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        status: int = 400,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.status = status
        self.kind = kind

    def document(self) -> dict[str, Any]:
        error = {
            "type": self.kind,
            "code": self.code,
            "message": self.message,
            "param": self.param,
        }
        return {"error": {name: value for name, value in error.items() if value is not None}}


class InvalidRequestError(StripeApiError):
    """A request that fails validation, so nothing is stored under its key."""


def resource_missing_error(
    kind: str, reference: str, param: str, status: int = 400
) -> StripeApiError:
    return StripeApiError(
        f"No such {kind}: '{reference}'", code="resource_missing", param=param, status=status
    )
