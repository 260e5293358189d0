"""A channel connection of this process."""

import logging

from attrs import define, field

from staffbooking_core.domain.accounts.users import Session
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.representations.channel import CloseCode, ConnectionState, ServerEvent
from staffbooking_http.api.metrics import ChannelMetrics
from staffbooking_http.channel.frames import EncodedFrame
from staffbooking_http.channel.outbound import Outbound

log = logging.getLogger("staffbooking.channel")


@define(eq=False, kw_only=True)
class ChannelConnection(ConnectionState):
    """One connection of a user, over any transport."""

    session: Session
    outbound: Outbound
    metrics: ChannelMetrics
    is_catching_up: bool = field(default=False, init=False)

    def send(self, frame: EncodedFrame) -> None:
        """Queue a frame. Failures close only this connection."""
        try:
            if not self.outbound.send(frame):
                self.outbound.close(CloseCode.SLOW, "the client reads too slowly")
                self.metrics.slow_disconnects += 1
            elif frame.frame.event is ServerEvent.NEW_MESSAGE:
                self.metrics.sent_messages += 1
        except Exception as error:
            log_failure(f"user {self.user_id} could not be sent a frame", error)
            self.outbound.close(CloseCode.SLOW, "reconnect")


def log_failure(description: str, error: Exception) -> None:
    """Log a StaffbookingError as a warning, and any other error with its traceback."""
    if isinstance(error, StaffbookingError):
        log.warning("%s: %s", description, error)
    else:
        log.error(description, exc_info=error)
