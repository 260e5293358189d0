"""The security headers of every response."""

from staffbooking_core.policy import Policy
from staffbooking_http.api.endpoint import Header

API_CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""The policy of JSON responses: a browser loads nothing for them and shows them in no frame."""


def security_headers(policy: Policy, content_policy: str) -> tuple[Header, ...]:
    """The security headers of responses with this content policy."""
    headers: tuple[Header, ...] = (
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", content_policy.encode("ascii")),
    )
    if policy.base_url.startswith("https:"):
        headers += ((b"strict-transport-security", b"max-age=31536000"),)
    return headers
