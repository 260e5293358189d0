"""What people are to be told: written with what it is about, told afterwards, at least once.

Notices are claimed in one transaction, told outside of any, and each goes away in another
once it was told. Whoever dies in between leaves it to the next who asks when the lease has
run out.
"""

from __future__ import annotations

from staffbooking_core.ports import Lease, Notice, Ports, Writing

BATCH = 16


async def tell_notices(ports: Ports, limit: int = BATCH) -> int:
    """Tell people what is to be told, the oldest first; how much there was. What can't be told
    keeps nothing else from being told, and is tried again when its claim has run out. Raises
    an ExceptionGroup of the notifier's faults, after all others were told."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease)

    async def claim(tx: Writing) -> list[tuple[int, Notice]]:
        return list(await tx.accounts.claim_notices(now, lease, limit))

    claimed, faults = await ports.store.write(claim), []
    for notice_id, notice in claimed:
        try:
            await ports.notifier.tell(notice)
        except Exception as fault:
            faults.append(fault)
        else:
            await _finish(ports, notice_id, lease)
    if faults:
        raise ExceptionGroup("notices could not be told", faults)
    return len(claimed)


async def _finish(ports: Ports, notice_id: int, lease: Lease) -> None:
    await ports.store.write(lambda tx: tx.accounts.finish_notice(notice_id, lease))
