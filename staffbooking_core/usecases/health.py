"""Is the service able to work?"""

from __future__ import annotations

from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import Ports


async def ready(ports: Ports) -> bool:
    """Whether the store answers and has its schema (CONTRACT 9, /readyz)."""
    try:
        async with ports.store.reading() as view:
            await view.money.pending(ports.clock.wall())
    except StaffbookingError:
        return False
    return True
