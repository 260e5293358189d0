"""The composition root: the only module that selects adapters.

`open_ports` opens them from settings, `sql_ports` on a database, `memory_ports` makes them in
memory. All three are names of `staffbooking_adapters` too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, Unpack

from anyio import to_thread
from attrs import evolve

from staffbooking_adapters.extras import check_extra
from staffbooking_adapters.files.local import LocalFiles, WriteProblem, find_write_problem
from staffbooking_adapters.guarded_store import GuardedStore
from staffbooking_adapters.images.processor import PillowImageProcessor
from staffbooking_adapters.notify.log import LogNotifier
from staffbooking_adapters.port_checks import Adapters, MemoryAdapters, check_adapters
from staffbooking_adapters.settings import (
    FakeProcessorSettings,
    Settings,
    SettingsError,
    StripeSettings,
)
from staffbooking_adapters.settings_database import parse_database_url
from staffbooking_adapters.settings_mail import SmtpServer
from staffbooking_adapters.system import Argon2Hasher, SandboxClock, SystemClock, SystemIds
from staffbooking_adapters.vault import KeyringVault, MemoryVault
from staffbooking_core import CalendarReadFault, CalendarVersion, DeliveryFailure, FilesUnavailable
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    Clock,
    Email,
    FetchedCalendar,
    PaymentProcessor,
    Ports,
    SandboxProcessor,
    Store,
    Vault,
)

if TYPE_CHECKING:
    from staffbooking_adapters.chat.local import LocalChat
    from staffbooking_adapters.fake.processor import FakeProcessor
    from staffbooking_adapters.notify.smtp import SmtpNotifier
    from staffbooking_adapters.sql.engine.open import Database
    from staffbooking_adapters.sql.store import SqlStore
    from staffbooking_adapters.stripe.processor import StripeProcessor
    from staffbooking_adapters.webhook.calendars import HttpCalendarFetcher
    from staffbooking_adapters.webhook.sender import HttpSender


def memory_ports(
    policy: Policy | None = None, now: datetime | None = None, **adapters: Unpack[MemoryAdapters]
) -> Ports:
    """Make all ports in memory, for tests and trials: the fake processor with its sandbox, and
    doubles that give the same results each time. Nothing is sent, and nothing outlives the process.

    With `now` (aware) the clock is a `VirtualClock`, which stands still until it is moved; without
    it, the system's. Both add the clock offset of the sandbox. `adapters` replace ports by their
    names in `Ports`. With `payments` there is no sandbox, unless it is given too. Raises what
    `check_adapters` raises; `check_store` checks the families of a store.
    Not for a public service: ids are predictable, and passwords are stored in clear text.
    """
    from staffbooking_adapters.chat.local import LocalChat
    from staffbooking_adapters.fake.processor import FakeProcessor
    from staffbooking_adapters.ics.calendars import IcsCalendars
    from staffbooking_adapters.memory import doubles
    from staffbooking_adapters.memory.companions.calendar_fetcher import MemoryCalendarFetcher
    from staffbooking_adapters.memory.files import MemoryFiles
    from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
    from staffbooking_adapters.memory.store import MemoryStore
    from staffbooking_adapters.memory.webhooks.receivers import MemorySender

    policy = Policy() if policy is None else policy
    check_adapters({"policy": policy, **adapters}, now=now)
    store: Any = adapters.get("store") or MemoryStore(policy)  # Any: one given has what is used.
    standing = doubles.VirtualClock(now.astimezone(UTC), store=store) if now else None
    clock: Clock = adapters.get("clock") or standing or SandboxClock(store, SystemClock())
    refs = count(1)
    processor = FakeProcessor(
        MemoryFakeDocumentStore(),
        clock,
        base_url=policy.base_url,
        secret=b"events",
        make_ref=lambda: f"page{next(refs)}",
    )
    made: dict[str, Any] = {
        "store": store,
        "admission": adapters.get("admission") or store.admission,
        "payments": processor,
        "clock": clock,
        "ids": doubles.SeededIds(),
        "hasher": doubles.PlainHasher(),
        "vault": MemoryVault(["key"]),
        "notifier": doubles.RecordingNotifier(),
        "hints": adapters.get("hints") or store.hints,
        "webhook_sender": MemorySender(),
        "pubsub": LocalChat(),
        "content_filter": doubles.PermissiveContentFilter(),
        "calendars": IcsCalendars(policy.base_url),
        "calendar_fetcher": MemoryCalendarFetcher(),
        "files": MemoryFiles(),
        "image_processor": PillowImageProcessor(),
        "policy": policy,
        "sandbox": None if "payments" in adapters else processor.sandbox,
    }
    return Ports(**{**made, **adapters})


@asynccontextmanager
async def sql_ports(
    url: str,
    *,
    secret_keys: Sequence[str],
    policy: Policy | None = None,
    migrate: bool = False,
    **adapters: Unpack[Adapters],
) -> AsyncIterator[Ports]:
    """Open all ports on a database, with the fake processor and its sandbox, and close them when
    the context ends. No mail server is used: emails go to the log.

    `url` is sqlite+aiosqlite:///FILE or postgresql+asyncpg://USER@HOST/DATABASE. The first of
    `secret_keys` signs and seals what is stored, all of them verify and open it. `migrate` first
    creates the schema or upgrades it. `adapters` are those of `open_ports`; with `payments` and
    no sandbox, the policy's `sandbox` must be False, which is then the default.

    Raises ValueError for another URL or no key, what `open_ports` raises, SchemaUpgradeError if
    the migration fails, and StoreUnavailable if the database can't be reached.
    """
    try:
        parse_database_url(url)
    except ValueError as error:
        raise ValueError(f"the URL {error}") from None
    if isinstance(secret_keys, str) or not all(secret_keys) or not secret_keys:
        raise ValueError("secret_keys must be a list of one or more keys")
    if policy is None:
        policy = Policy(sandbox="payments" not in adapters or "sandbox" in adapters)
    settings = Settings(url, tuple(secret_keys), policy)
    if migrate:
        await upgrade_schema(settings)
    async with open_ports(settings, **adapters) as ports:
        yield ports


@asynccontextmanager
async def open_ports(
    settings: Settings, *, is_long_running: bool = False, **adapters: Unpack[Adapters]
) -> AsyncIterator[Ports]:
    """Open all ports and close them when the context ends. A long-running process preloads
    libraries and data, so that no request waits for them.

    `adapters` replace ports by their names in `Ports`, except those of the database: store,
    admission, hints. The caller closes them. With `payments` there is no sandbox, unless it is
    given too.

    The schema must exist: `upgrade_schema` creates it. Raises SettingsError if a long-running
    process can't write to the files folder (FilesUnavailable if the disk is at fault), or if the
    policy has a sandbox without a port for it; TypeError for what is no such port; MissingExtra if
    the settings need another extra.
    """
    from staffbooking_adapters.content.filter import DefaultContentFilter
    from staffbooking_adapters.ics.calendars import IcsCalendars

    _check_replacements(settings.policy, adapters)
    _check_extras(settings, adapters)
    async with AsyncExitStack() as stack:
        from staffbooking_adapters.sql.store import open_store

        store = await open_store(settings.database_url, settings.policy)
        stack.push_async_callback(store.close)
        real_clock = await stack.enter_async_context(_open_real_clock(store, settings.policy))
        clock: Clock = adapters.get("clock") or (
            SandboxClock(store, real_clock) if settings.policy.sandbox else real_clock
        )
        vault = KeyringVault(settings.secret_keys)
        sender = _LazySender(insecure=settings.policy.webhook_allow_insecure)
        stack.push_async_callback(sender.close)
        fetcher = _LazyCalendarFetcher(insecure=settings.policy.webhook_allow_insecure)
        stack.push_async_callback(fetcher.close)
        notifier = _LazyNotifier(settings)
        stack.push_async_callback(notifier.close)
        content_filter = DefaultContentFilter(settings.blocked_terms)
        calendars = IcsCalendars(settings.policy.base_url)
        image_processor = PillowImageProcessor()
        if is_long_running:
            if problem := find_files_problem(settings):
                if problem.is_disk_fault:
                    raise FilesUnavailable(problem.text)
                raise SettingsError("FILES_DIR", f"can't be used: {problem.text}")
            check_extra("worker")
            content_filter.load()
            calendars.load()
            image_processor.load()
        chat = _make_chat(settings, is_preloaded=is_long_running)
        stack.push_async_callback(chat.close)
        payments, sandbox = (
            (adapters["payments"], None)
            if "payments" in adapters
            else _open_processor(settings, store.database, clock, vault, stack)
        )
        ports = Ports(
            store=_guard_store(store, real_clock, settings.policy),
            admission=store.admission,
            payments=payments,
            clock=clock,
            ids=SystemIds(),
            hasher=Argon2Hasher(),
            vault=vault,
            notifier=notifier,
            hints=store.hints,
            webhook_sender=sender,
            pubsub=chat,
            content_filter=content_filter,
            calendars=calendars,
            calendar_fetcher=fetcher,
            files=LocalFiles(settings.files_folder),
            image_processor=image_processor,
            policy=settings.policy,
            sandbox=sandbox,
        )
        yield evolve(ports, **adapters)


def _check_replacements(policy: Policy, adapters: Mapping[str, Any]) -> None:
    check_adapters({"policy": policy, **adapters}, database_ports=("store", "admission", "hints"))
    if policy.sandbox and "payments" in adapters and "sandbox" not in adapters:
        raise SettingsError("SANDBOX", "requires fake payments: others are given")


def _check_extras(settings: Settings, replaced: Mapping[str, Any]) -> None:
    """Raise MissingExtra for what the settings name; other extras are checked on their use."""
    _check_database_extra(settings.database_url)
    if isinstance(settings.processor, StripeSettings) and "payments" not in replaced:
        check_extra("stripe")
    if settings.redis_url is not None and "pubsub" not in replaced:
        check_extra("redis")
    if settings.smtp is not None and "notifier" not in replaced:
        check_extra("mail")


def _check_database_extra(url: str) -> None:
    check_extra("sqlite" if url.startswith("sqlite") else "postgres")


@asynccontextmanager
async def _open_real_clock(store: SqlStore, policy: Policy) -> AsyncIterator[SystemClock]:
    """The database's clock on PostgreSQL. All processes of a SQLite file are on one machine, whose
    clock they share."""
    if store.database.dialect == "sqlite":
        yield SystemClock()
        return
    from staffbooking_adapters.sql.clock import DatabaseClock

    clock = DatabaseClock(store.database, policy)
    await clock.start()
    try:
        yield clock
    finally:
        await clock.close()


def _guard_store(store: SqlStore, real_clock: SystemClock, policy: Policy) -> Store:
    if store.database.dialect == "sqlite":
        return store
    return GuardedStore(store, real_clock, policy.max_clock_skew)


class _LazySender:
    """A webhook sender, made on first use; a thread imports it, so that the event loop goes on."""

    def __init__(self, *, insecure: bool) -> None:
        self._insecure = insecure
        self._sender: HttpSender | None = None

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float
    ) -> int | DeliveryFailure:
        return await (await self._get_sender()).send(url, headers, body, timeout_seconds)

    async def resolves_to_unsafe(self, host: str) -> bool:
        return await (await self._get_sender()).resolves_to_unsafe(host)

    async def close(self) -> None:
        if self._sender is not None:
            await self._sender.close()

    async def _get_sender(self) -> HttpSender:
        if self._sender is None:
            check_extra("worker")
            module = await to_thread.run_sync(import_module, "staffbooking_adapters.webhook.sender")
            self._sender = self._sender or module.HttpSender(insecure=self._insecure)
        return self._sender


class _LazyCalendarFetcher:
    """A fetcher of calendars that is created on first use, as most processes read none."""

    def __init__(self, *, insecure: bool) -> None:
        self._insecure = insecure
        self._fetcher: HttpCalendarFetcher | None = None

    async def fetch(
        self, url: str, known: CalendarVersion, max_bytes: int, timeout_seconds: float
    ) -> FetchedCalendar | CalendarReadFault | None:
        if self._fetcher is None:
            check_extra("worker")
            from staffbooking_adapters.webhook.calendars import HttpCalendarFetcher

            self._fetcher = HttpCalendarFetcher(insecure=self._insecure)
        return await self._fetcher.fetch(url, known, max_bytes, timeout_seconds)

    async def close(self) -> None:
        if self._fetcher is not None:
            await self._fetcher.close()


class _LazyNotifier:
    """A notifier that opens its SMTP client on the first mail: most processes send none."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._log_notifier = LogNotifier()
        self._smtp: SmtpNotifier | None = None

    async def alert_operators(self, booking_id: int, text: str) -> None:
        await self._log_notifier.alert_operators(booking_id, text)

    async def send_email(self, email: Email) -> None:
        if self._settings.smtp is None:
            await self._log_notifier.send_email(email)
        else:
            self._smtp = self._smtp or _make_smtp_notifier(self._settings, self._settings.smtp)
            await self._smtp.send_email(email)

    async def close(self) -> None:
        if self._smtp is not None:
            await self._smtp.close()


def _make_smtp_notifier(settings: Settings, server: SmtpServer) -> SmtpNotifier:
    """A notifier that connects with its first mail."""
    from staffbooking_adapters.notify.mails import Mailbox
    from staffbooking_adapters.notify.smtp import SmtpNotifier

    mailbox, base_url = Mailbox(*settings.mail_from), settings.policy.base_url
    seconds = settings.policy.mail_timeout.total_seconds()
    return SmtpNotifier(server, mailbox, base_url, timeout_seconds=seconds)


def _make_chat(settings: Settings, *, is_preloaded: bool) -> LocalChat:
    from staffbooking_adapters.chat.local import LocalChat
    from staffbooking_adapters.chat.redis import RedisPubSubTransport, channel_name
    from staffbooking_adapters.chat.shared import SharedChat

    if settings.redis_url is not None:
        channel = channel_name(settings.database_url, settings.policy.base_url)
        transport = RedisPubSubTransport(settings.redis_url, channel)
        if is_preloaded:
            transport.get_client()
        return SharedChat(transport)
    if settings.database_url.startswith("sqlite"):
        return LocalChat()
    from staffbooking_adapters.sql.messaging.pubsub import PostgresPubSubTransport

    return SharedChat(PostgresPubSubTransport(settings.database_url))


def _open_processor(
    settings: Settings, database: Database, clock: Clock, vault: Vault, stack: AsyncExitStack
) -> tuple[PaymentProcessor, SandboxProcessor | None]:
    """The processor of the settings, which the stack closes, and its sandbox if it is fake."""
    match settings.processor:
        case StripeSettings() as stripe:
            real = _make_stripe_processor(stripe, settings.policy)
            stack.push_async_callback(real.close)
            return real, None
        case FakeProcessorSettings() as fake:
            simulated = _make_fake_processor(fake, settings.policy.base_url, database, clock, vault)
            return simulated, simulated.sandbox


def _make_stripe_processor(settings: StripeSettings, policy: Policy) -> StripeProcessor:
    # Imported only where it is used: Stripe's SDK is slow to load.
    from staffbooking_adapters.stripe.processor import StripeProcessor

    return StripeProcessor(
        settings.secret_key,
        settings.webhook_secrets,
        settings.environment,
        base_url=policy.base_url,
        currency=policy.currency.code,
        base_addresses=None if settings.api_base is None else {"api": settings.api_base},
    )


def _make_fake_processor(
    settings: FakeProcessorSettings, base_url: str, database: Database, clock: Clock, vault: Vault
) -> FakeProcessor:
    from staffbooking_adapters.fake.processor import FakeProcessor
    from staffbooking_adapters.sql.sandbox.fake_documents import SqlFakeDocumentStore

    return FakeProcessor(
        SqlFakeDocumentStore(database),
        clock,
        base_url=base_url,
        secret=vault.sign("fake-processor", b"events"),
        manual_payees=settings.manual_payees,
    )


async def upgrade_schema(settings: Settings) -> None:
    """Upgrade the database's schema to this version; a current schema is left unchanged."""
    _check_database_extra(settings.database_url)
    from staffbooking_adapters.sql.schema.upgrade import run_migrations

    await run_migrations(settings.database_url)


def find_files_problem(settings: Settings) -> WriteProblem | None:
    """Why uploaded images can't be stored; None if they can."""
    return find_write_problem(settings.files_folder)


async def find_schema_problem(settings: Settings) -> str | None:
    """How the schema differs from this version's, in one line; None if it does not."""
    _check_database_extra(settings.database_url)
    from staffbooking_adapters.sql.schema.upgrade import find_schema_mismatch

    return await find_schema_mismatch(settings.database_url)


async def find_server_problems(settings: Settings) -> dict[str, str | None]:
    """Why each server that the settings name besides the database can't be used; None if it can."""
    from staffbooking_adapters.chat.redis import RedisPubSubTransport

    found: dict[str, str | None] = {}
    if settings.redis_url is not None:
        found["redis"] = await RedisPubSubTransport(settings.redis_url, "").find_problem()
    if settings.smtp is not None:
        found["mail"] = await _make_smtp_notifier(settings, settings.smtp).find_problem()
    return found
