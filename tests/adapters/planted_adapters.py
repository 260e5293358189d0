"""Adapters with one fault each: all but those of the payment processor."""

HEAD = """
import asyncio
from contextlib import asynccontextmanager
from itertools import count

from attrs import evolve

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo
import pytest
from staffbooking_adapters.memory.doubles import PlainHasher, SeededIds, VirtualClock
from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.system import SystemClock
from staffbooking_adapters.testing.file_storage import FileStorageContract
from staffbooking_adapters.testing.machine import (
    ClockContract, HasherContract, IdGeneratorContract, VaultContract,
)
from staffbooking_adapters.vault import KeyringVault
from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.testing.builders import NOW, POLICY
from staffbooking_adapters.testing.notifier import NotifierBench, NotifierContract
from staffbooking_adapters.testing.processor import ProcessorBench, commands, keys, reads
from staffbooking_adapters.testing.pubsub import PubSubContract
from staffbooking_adapters.testing.store.companions.saved import SavedContract
from staffbooking_adapters.testing.webhook_sender import WebhookSenderContract
from staffbooking_adapters.webhook.sender import HttpSender
from staffbooking_core import (
    DeliveryFailure, MovementKind, OutcomeUnknown, ProcessorRefused, RefusalCode,
    UndeliverableEmail,
)
from tests.mail.test_notifiers_contract import RecordedMails
from tests.money.processors import FakeProcessorWorld
"""

FILES = """
class {name}(MemoryFiles):
    {fault}

class Test{name}(FileStorageContract):
    @pytest.fixture
    def files(self):
        return {name}()
"""
CLOCK = """
class {name}(SystemClock):
    {fault}

class Test{name}(ClockContract):
    @pytest.fixture
    def clock(self):
        return {name}()
"""
HASHER = """
class {name}(PlainHasher):
    {fault}

class Test{name}(HasherContract):
    @pytest.fixture
    def hasher(self):
        return {name}()
"""
IDS = """
class {name}(SeededIds):
    {fault}

class Test{name}(IdGeneratorContract):
    @pytest.fixture
    def ids(self):
        return {name}()
"""
VAULT = """
class {name}(KeyringVault):
    {fault}

class Test{name}(VaultContract):
    @pytest.fixture
    def vault(self):
        return {name}(["a secret key"])
"""

NOTIFIER = """
class {name}(RecordingNotifier):
    {fault}

class Test{name}(NotifierContract):
    @asynccontextmanager
    async def open_bench(self, request):
        notifier = {name}()
        yield NotifierBench(notifier, RecordedMails(notifier))
"""
CHAT = """
class {name}(LocalChat):
    {fault}

class Test{name}(PubSubContract):
    @asynccontextmanager
    async def open_processes(self, request):
        yield [{name}()]
"""
SENDER = """
class {name}(HttpSender):
    {fault}

class Test{name}(WebhookSenderContract):
    @asynccontextmanager
    async def open_sender(self, names, *, allow_loopback):
        sender = {name}(insecure=allow_loopback, resolver=names)
        yield sender
        await sender.close()
"""
STORE = """
class {name}(MemoryStore):
    {fault}

class Test{name}(SavedContract):
    @asynccontextmanager
    async def open_store(self, request):
        yield {name}(POLICY)
"""
ADAPTERS = {
    "files are cut": (
        FILES,
        "async def put(self, name, content): await super().put(name, content[:1_000_000])",
        "A stored file is returned byte for byte",
    ),
    "files are appended to": (
        FILES,
        "async def put(self, name, content):"
        " await super().put(name, (await self.get(name) or b'') + content)",
        "The last content replaces earlier ones",
    ),
    "files are never removed": (
        FILES,
        "async def remove(self, name): await self.get(name)",
        "Only the removed file is gone",
    ),
    "a missing file is empty": (
        FILES,
        "async def get(self, name): return await super().get(name) or b''",
        "A missing file is None",
    ),
    "any name is taken": (
        FILES,
        "async def get(self, name): return None",
        "An invalid name raises ValueError",
    ),
    "times are naive": (
        CLOCK,
        "def wall(self): return datetime.now()",
        "are aware and have `datetime.UTC`",
    ),
    "time goes back": (
        CLOCK,
        "def wall(self):\n        self.n = getattr(self, 'n', 0) + 1\n"
        "        return super().wall() - timedelta(seconds=self.n)",
        "Neither wall time nor business time is earlier",
    ),
    "business time is in UTC by another name": (
        CLOCK,
        "async def business(self): return self.wall().astimezone(ZoneInfo('UTC'))",
        "have `datetime.UTC` as their timezone",
    ),
    "the skew is never known": (
        CLOCK,
        "def skew(self): return None",
        "the service is not ready while the skew is unknown",
    ),
    "sleep returns at once": (
        CLOCK,
        "async def sleep(self, seconds): pass",
        "at least so much wall time has passed",
    ),
    "every password is right": (
        HASHER,
        "async def verify(self, password, hashed): return hashed is not None",
        "The right password verifies; another one",
    ),
    "no hash is a hash": (
        HASHER,
        "async def verify(self, password, hashed):"
        " return hashed is None or await super().verify(password, hashed)",
        "another one, and no hash, do not",
    ),
    "passwords are cut": (
        HASHER,
        "async def verify(self, password, hashed):"
        " return hashed is not None and hashed.startswith(f'plain:{password}')",
        "The right password verifies",
    ),
    "codes repeat": (
        IDS,
        "def booking_code(self): return 'BK0123456789AB'",
        "codes are distinct",
    ),
    "tokens are short": (
        IDS,
        "def token(self): return super().token()[:20]",
        "Tokens and webhook secrets have 256 bits",
    ),
    "any signature is valid": (
        VAULT,
        "def verify(self, purpose, message, signature): return bool(signature)",
        "A signature verifies for its purpose and message alone",
    ),
    "seals are not bound": (
        VAULT,
        "def seal(self, purpose, secret, row_id): return super().seal('', secret, 0)\n"
        "    def open(self, purpose, sealed, row_id): return super().open('', sealed, 0)",
        "SealBroken for another row or purpose",
    ),
    "nothing is sealed": (
        VAULT,
        "def seal(self, purpose, secret, row_id): return secret\n"
        "    def open(self, purpose, sealed, row_id): return sealed",
        "Seals of the same secret differ",
    ),
    "a subject is lost": (
        NOTIFIER,
        "async def send_email(self, email): await super().send_email(evolve(email, subject=''))",
        "at its address, with its subject and text",
    ),
    "a link is lost": (
        NOTIFIER,
        "async def send_email(self, email): await super().send_email(evolve(email, url=None))",
        "The address of the page that a mail asks to open is in it",
    ),
    "a failed mail counts as sent": (
        NOTIFIER,
        "async def send_email(self, email):\n"
        "        try: await super().send_email(email)\n"
        "        except OSError: pass",
        "A mail that fails for now raises an error",
    ),
    "a failed mail is given up": (
        NOTIFIER,
        "async def send_email(self, email):\n"
        "        try: await super().send_email(email)\n"
        "        except OSError: raise UndeliverableEmail('no') from None",
        "but not UndeliverableEmail, which would give it up",
    ),
    "a refused mail is sent again": (
        NOTIFIER,
        "async def send_email(self, email):\n"
        "        try: await super().send_email(email)\n"
        "        except UndeliverableEmail: raise OSError from None",
        "A mail that can never be delivered raises UndeliverableEmail",
    ),
    "an alert has no booking": (
        NOTIFIER,
        "async def alert_operators(self, booking_id, text): await super().alert_operators(0, text)",
        "with the booking's id and its text",
    ),
    "a former subscriber is told": (
        CHAT,
        "@asynccontextmanager\n"
        "    async def subscribe(self, subscriber):\n"
        "        self._subscribers.append(subscriber)\n"
        "        yield",
        "A subscriber whose context has ended is told nothing more",
    ),
    "the publisher's process is told later": (
        CHAT,
        "def publish(self, broadcast):"
        " asyncio.get_running_loop().call_soon(super().publish, broadcast)",
        "Publishing tells each subscriber of the same process once, before it returns",
    ),
    "a broadcast comes twice": (
        CHAT,
        "def publish(self, broadcast): super().publish(broadcast); super().publish(broadcast)",
        "once and unchanged",
    ),
    "nobody is told of messages": (
        CHAT,
        "def publish_messages_stored(self): pass",
        "Every process is told that messages were stored",
    ),
    "a body is changed": (
        SENDER,
        "async def send(self, url, headers, body, timeout_seconds):"
        " return await super().send(url, headers, body + b' ', timeout_seconds)",
        "exactly the bytes of the body: the signature is over these bytes",
    ),
    "a redirect is a success": (
        SENDER,
        "async def send(self, *given):\n"
        "        found = await super().send(*given)\n"
        "        return 200 if isinstance(found, int) and 300 <= found < 400 else found",
        "A redirect is returned as its status",
    ),
    "a failed attempt is an error": (
        SENDER,
        "async def send(self, *given):\n"
        "        found = await super().send(*given)\n"
        "        if found is DeliveryFailure.CONNECTION_CLOSED: raise ConnectionResetError\n"
        "        return found",
        "A receiver without a response is a `DeliveryFailure`, never an error",
    ),
    "this machine is a public host": (
        SENDER,
        "def __init__(self, *, insecure, resolver):"
        " super().__init__(insecure=True, resolver=resolver)",
        "An address of this machine, of a private network",
    ),
    "a name is never unsafe": (
        SENDER,
        "async def resolves_to_unsafe(self, host): return False",
        "`resolves_to_unsafe` is true where any address of a name is unsafe",
    ),
    "a row of the store is lost": (
        STORE,
        "async def run_transaction(self, work):\n"
        "        before = self._committed.state.saved_people\n"
        "        result = await super().run_transaction(work)\n"
        "        self._committed.state.saved_people = before\n"
        "        return result",
        "The list is of one customer alone, newest first",
    ),
}
"""Template, faulty code and a part of the broken promise, by what is wrong."""
