"""TLS contexts of servers and clients with certificates of an authority of the tests."""

from __future__ import annotations

import ssl

import trustme


def server_tls_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """A server TLS context with a certificate for these names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def client_tls_context(authority: trustme.CA) -> ssl.SSLContext:
    """A client TLS context that trusts this authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context
