"""Image processing in a worker thread; `reencoding` and `pdf` do the work."""

from __future__ import annotations

import anyio
import anyio.to_thread

from staffbooking_adapters.extras import check_extra, has_extra
from staffbooking_adapters.images.pdf import check_pdf
from staffbooking_core.ports import ProcessedImage


class PillowImageProcessor:
    """Implements `ImageProcessor`: one upload at a time, since a large one takes much memory.

    Pillow, of the extra `images`, is loaded on first use or by `load`.
    """

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Preload Pillow if it is installed, so that the first request does not wait for it."""
        if has_extra("images"):
            import staffbooking_adapters.images.reencoding  # noqa: F401

    async def process(self, upload: bytes) -> ProcessedImage:
        check_extra("images")
        return await anyio.to_thread.run_sync(_reencode, upload, limiter=self._limiter)

    async def check_pdf(self, upload: bytes) -> None:
        await anyio.to_thread.run_sync(check_pdf, upload, limiter=self._limiter)


def _reencode(upload: bytes) -> ProcessedImage:
    from staffbooking_adapters.images.reencoding import reencode_image

    return reencode_image(upload)
