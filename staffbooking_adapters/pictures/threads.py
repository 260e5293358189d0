"""Pictures made in a thread, so that nobody else waits for them."""

from __future__ import annotations

import anyio
import anyio.to_thread

from staffbooking_core.ports import ProcessedImage


class PillowPictures:
    """One picture at a time: what a large one takes in memory is bounded, but not small. Pillow
    is loaded by the first use, or by `load`."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Have everything loaded that the first use would have to wait for."""
        import staffbooking_adapters.pictures.remaking  # noqa: F401

    async def process(self, upload: bytes) -> ProcessedImage:
        return await anyio.to_thread.run_sync(_reencode, upload, limiter=self._limiter)


def _reencode(upload: bytes) -> ProcessedImage:
    from staffbooking_adapters.pictures.remaking import reencode_image

    return reencode_image(upload)
