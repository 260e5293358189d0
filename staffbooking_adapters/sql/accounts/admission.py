"""Credentials and windows of requests: all that wait at a moment in one go.

PostgreSQL looks keys up, judges them and counts their hits in one statement, so what it
judges must agree with `accounts.judge_key`, which tells the callers why they are refused.
SQLite looks up in one file, and what was judged here is counted in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from attrs import define, field, frozen

from staffbooking_adapters.sql.accounts import rate_limits as accounts_rate_limits
from staffbooking_adapters.sql.accounts.api_key_usage import KeyUses
from staffbooking_adapters.sql.accounts.api_keys import KeyedHit, find_and_count, find_callers
from staffbooking_adapters.sql.accounts.rate_limits import Hits
from staffbooking_adapters.sql.accounts.store import GET_SESSION, SESSION, to_session, to_user
from staffbooking_adapters.sql.engine.batcher import Lane, Waiting
from staffbooking_adapters.sql.engine.connection import Database
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import judge_key, judge_session
from staffbooking_core.domain.shared import rate_limits as shared_rate_limits
from staffbooking_core.domain.shared.rate_limits import Rule, Verdict, Window
from staffbooking_core.errors import StaffbookingError, Unauthenticated, Unavailable
from staffbooking_core.policy import Policy
from staffbooking_core.ports import KeyCaller, SessionCaller

MANY = 10_000
"""From so many windows on, those counted alone are gone through for ended ones."""


@frozen
class _Question:
    """A key with what it is wanted for, or without a digest a scope to count a hit in."""

    digest: str
    permission: Permission | None
    scope: str
    rules: tuple[Rule, ...]
    now: datetime

    def scopes(self, caller: KeyCaller | None) -> list[str]:
        if caller is None:
            return [self.scope]
        return [f"{rule.name}:key:{caller.key.id}" for rule in self.rules]


_Answer: TypeAlias = tuple[KeyCaller | None, list[Verdict]]
_Waiting: TypeAlias = Waiting[_Question, _Answer]
_Admitted: TypeAlias = tuple[_Waiting, KeyCaller | None]


@define
class SqlAdmission:
    database: Database
    counter: Database
    """Where windows are; on PostgreSQL the keys too."""
    policy: Policy
    uses: KeyUses
    _lane: Lane[_Question, _Answer] = field(init=False)
    _alone: dict[str, Window] = field(factory=dict, init=False)
    """Windows of this process, for as long as those of all are out of reach."""

    def __attrs_post_init__(self) -> None:
        self._lane = Lane(self._flush)

    async def by_key(
        self,
        digest: bytes,
        permission: Permission | None,
        rules: Sequence[Rule],
        now: datetime,
    ) -> tuple[KeyCaller, Sequence[Verdict]]:
        asked = _Question(digest.hex(), permission, "", tuple(rules), now)
        caller, verdicts = await self._lane.ask(asked)
        assert caller is not None
        self.uses.note(caller.key.id, now)
        return caller, verdicts

    async def by_session(self, digest: bytes, now: datetime) -> SessionCaller | None:
        row = await self.database.one(GET_SESSION, session=digest.hex())
        if row is None:
            return None
        session, user = to_session(row), to_user(row[len(SESSION) :])
        idle, lifetime = self.policy.session_idle, self.policy.session_lifetime
        signed_in = judge_session(session, user, now, idle=idle, lifetime=lifetime)
        return SessionCaller(session, user) if signed_in else None

    async def hit(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        _, (verdict,) = await self._lane.ask(_Question("", None, scope, (rule,), now))
        return verdict

    async def look(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        try:
            window = await accounts_rate_limits.look(self.counter, scope)
        except Unavailable:
            window = self._alone.get(scope)
        return shared_rate_limits.look(window, now, rule)

    async def sweep(self, now: datetime) -> int:
        """Forget windows that have ended; how many there were."""
        return await self.counter.run(accounts_rate_limits.SWEEP, now=now)

    async def close(self) -> None:
        await self._lane.close()
        await self.uses.close()

    async def _flush(self, batch: Sequence[_Waiting]) -> None:
        now = max(waiting.question.now for waiting in batch)
        try:
            callers, counted = await self._find(batch, now)
        except Unavailable as error:
            batch = _without_keys(batch, error)
            callers, counted = {}, self._count_alone(_hits(_admitted(batch, {}, now)), now)
        admitted = _admitted(batch, callers, now)
        hits = _hits(admitted)
        if counted is None:
            counted = await self._count(hits, now)
        _tell(admitted, hits, counted)

    async def _find(
        self, batch: Sequence[_Waiting], now: datetime
    ) -> tuple[dict[str, KeyCaller], dict[str, Window] | None]:
        """The callers, and on PostgreSQL how the windows stand by now."""
        questions = [waiting.question for waiting in batch]
        digests = {question.digest for question in questions if question.digest}
        if self._counts_apart:
            return (await find_callers(self.database, digests) if digests else {}), None
        keyed = Counter(
            KeyedHit(question.digest, question.permission, rule)
            for question in questions
            for rule in question.rules
            if question.digest
        )
        plain = [(each, None) for each in batch if not each.question.digest]
        return await find_and_count(self.counter, digests, keyed, _hits(plain), now)

    @property
    def _counts_apart(self) -> bool:
        return self.database.dialect == "sqlite"

    async def _count(self, hits: Mapping[str, Hits], now: datetime) -> dict[str, Window]:
        if not hits:
            return {}
        try:
            return await accounts_rate_limits.count(self.counter, hits, now)
        except Unavailable:
            return self._count_alone(hits, now)

    def _count_alone(self, hits: Mapping[str, Hits], now: datetime) -> dict[str, Window]:
        if len(self._alone) > MANY:
            kept = self._alone.items()
            self._alone = {scope: window for scope, window in kept if now < window.resets_at}
        for scope, hit in hits.items():
            self._alone[scope], _ = shared_rate_limits.hit(
                self._alone.get(scope), now, hit.rule, hit.n
            )
        return {scope: self._alone[scope] for scope in hits}


def _admitted(
    batch: Sequence[_Waiting], callers: Mapping[str, KeyCaller], now: datetime
) -> list[_Admitted]:
    """Those whose hits count; the others are told why not."""
    admitted: list[_Admitted] = []
    for waiting in batch:
        question = waiting.question
        caller = callers.get(question.digest)
        try:
            if question.digest:
                _judge(caller, question.permission, now)
        except StaffbookingError as error:
            waiting.refuse(error)
        else:
            admitted.append((waiting, caller))
    return admitted


def _judge(caller: KeyCaller | None, permission: Permission | None, now: datetime) -> None:
    if caller is None:
        raise Unauthenticated("invalid_api_key", "The API key is not valid")
    judge_key(caller.key, caller.owner, permission, now)


def _without_keys(batch: Sequence[_Waiting], error: Unavailable) -> list[_Waiting]:
    """Those that need no key to be known; the others get the error."""
    for waiting in batch:
        if waiting.question.digest:
            waiting.refuse(error)
    return [waiting for waiting in batch if not waiting.question.digest]


def _hits(admitted: Sequence[_Admitted]) -> dict[str, Hits]:
    """All hits by scope, the scopes in order: so that flushes wait for each other in line."""
    hits: dict[str, Hits] = {}
    for waiting, caller in admitted:
        question = waiting.question
        for scope, rule in zip(question.scopes(caller), question.rules, strict=True):
            earlier = hits.get(scope)
            hits[scope] = Hits(rule, 1 if earlier is None else earlier.n + 1)
    return dict(sorted(hits.items()))


def _tell(
    admitted: Sequence[_Admitted], hits: Mapping[str, Hits], counted: Mapping[str, Window]
) -> None:
    """Give each its own verdicts: hits that were counted together still come one by one."""
    left = {scope: hit.n for scope, hit in hits.items()}
    for waiting, caller in admitted:
        question, verdicts = waiting.question, []
        for scope, rule in zip(question.scopes(caller), question.rules, strict=True):
            left[scope] -= 1
            window = counted[scope]
            count = window.count - left[scope]
            verdicts.append(shared_rate_limits.verdict(rule, count, window.resets_at, question.now))
        waiting.give((caller, verdicts))
