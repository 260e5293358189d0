"""All plays of the playbook."""

from __future__ import annotations

from tests.channel import (
    playbook_limits,
    playbook_messages,
    playbook_passing,
    playbook_resuming,
)
from tests.channel.playbook import Play

PLAYS = [
    each
    for chapter in (playbook_messages, playbook_passing, playbook_resuming, playbook_limits)
    for each in vars(chapter).values()
    if isinstance(each, Play)
]
