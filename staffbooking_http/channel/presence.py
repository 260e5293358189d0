"""The seats of a process: whose connections are counted here, and what all are told of it."""

import secrets
from collections import Counter

import anyio

from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import Departures
from staffbooking_core.usecases.messaging import channel


class Seats:
    """One for each connection, over all processes at most as many as a user may have.

    The store counts them. Where nobody knows whether it has, because it did not answer, the
    next beat counts anew, unless somebody comes or goes meanwhile.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._node = secrets.token_hex(8)
        """The name of this process, among those that keep connections."""
        self._taken: Counter[int] = Counter()
        self._departures = Departures(ports.policy)
        self._is_miscounted = False
        self._doubtful: set[int] = set()
        """Users who may be miscounted."""
        self._changing = 0
        """How many are coming or going at the moment."""
        self._changes = 0
        self._speaking = anyio.Lock()
        self._has_left = False

    async def take(self, user_id: int) -> None:
        """Count a connection. Raises LimitExceeded where the user has too many; any other
        error leaves it uncounted. What was taken is given back once."""
        self._changing += 1
        try:
            await channel.connect(self._ports, user_id, self._node)
        except LimitExceeded:
            raise
        except BaseException:
            self._doubt(user_id)
            raise
        else:
            self._taken[user_id] += 1
            self._departures.back(user_id)
        finally:
            self._changed()

    async def give_back(self, user_id: int) -> None:
        """The connection is over, or never came about."""
        self._taken[user_id] -= 1
        if not self._taken[user_id]:
            del self._taken[user_id]
        if self._has_left:
            return  # So have all, with the process.
        self._changing += 1
        try:
            with anyio.CancelScope(shield=True):
                await channel.disconnect(self._ports, user_id, self._node)
        except StaffbookingError:
            self._doubt(user_id)
        except BaseException:
            self._doubt(user_id)
            raise
        finally:
            self._changed()
            if user_id not in self._taken:
                self._departures.left(user_id, self._ports.clock.wall())

    async def beat(self) -> None:
        """Show that the process lives, and see to those whose process doesn't."""
        async with self._speaking:
            if self._has_left:
                return
            anew, doubtful = self._is_miscounted, [*self._doubtful]
            changes = self._changes
            beat = await channel.beat(self._ports, self._node, self._taken, anew=anew)
            now = self._ports.clock.wall()
            if anew or beat.was_dead:
                self._is_miscounted = self._changing > 0 or changes != self._changes
                self._departures.doubted([*self._taken, *doubtful], now)
            if not self._is_miscounted:
                self._doubtful.clear()
            self._departures.doubted(beat.dead, now)

    async def tell(self) -> None:
        """Tell of those who may have left, or come."""
        now = self._ports.clock.wall()
        for user_id in self._departures.due(now):
            await channel.show(self._ports, user_id)
            self._departures.done(user_id, now)

    async def leave(self) -> None:
        """The end of the process: its users may sit down elsewhere at once. What is given back
        from the begin of this on is not counted any more."""
        self._has_left, users = True, [*self._taken]
        async with self._speaking:
            await channel.leave(self._ports, self._node, users)

    def _doubt(self, user_id: int) -> None:
        self._is_miscounted = True
        self._doubtful.add(user_id)

    def _changed(self) -> None:
        self._changing -= 1
        self._changes += 1
