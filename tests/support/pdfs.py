"""PDFs as people upload them, good and bad."""

from __future__ import annotations

import zlib


def make_pdf(*objects: bytes, header: bytes = b"%PDF-1.7\n", end: bytes = b"%%EOF\n") -> bytes:
    """A PDF of one empty page, with more objects."""
    body = b"".join(
        b"%d 0 obj\n%s\nendobj\n" % (number, content)
        for number, content in enumerate(
            (
                b"<< /Type /Catalog /Pages 2 0 R >>",
                b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] >>",
                *objects,
            ),
            start=1,
        )
    )
    return header + body + b"trailer\n<< /Root 1 0 R >>\nstartxref\n9\n" + end


def make_pdf_stream(content: bytes, entries: bytes = b"/Filter /FlateDecode") -> bytes:
    """An object with a stream, compressed by zlib."""
    deflated = zlib.compress(content)
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(deflated), deflated)
