"""`staffbooking secrets rotate`: stored secrets are re-sealed with the first key."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from staffbooking_adapters.memory.companions.calendar_fetcher import MemoryCalendarFetcher
from staffbooking_adapters.testing.builders import HOUR, add_user
from staffbooking_adapters.testing.builders_webhooks import ENDPOINT_SECRET, add_endpoint
from staffbooking_adapters.vault import KeyringVault
from staffbooking_cli.commands import secrets
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.calendar_subscriptions import CalendarSubscription
from staffbooking_core.domain.webhooks.deliveries import EndpointSecrets, WebhookEndpoint
from staffbooking_core.inputs import AddCalendarAddress
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.companions import calendar_subscriptions
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.deliveries import WEBHOOK_SECRET_PURPOSE
from tests.cli.deployment import CliDeployment
from tests.support.ics import make_ics_calendar
from tests.support.memory_deployment import actor_of

NOTHING = {"resealed": 0, "broken": [], "calendars": {"resealed": 0, "broken": []}}
OTHER = ENDPOINT_SECRET.replace("c2", "d2")


def use_keys(deployment: CliDeployment, *keys: str) -> None:
    deployment.ports = evolve(deployment.ports, vault=KeyringVault(keys))


def add(deployment: CliDeployment) -> WebhookEndpoint:
    """Creates an endpoint whose secret is sealed with the first current key."""

    async def added(ports: Ports) -> WebhookEndpoint:
        return await add_endpoint(ports.store, vault=ports.vault)

    return deployment.run_on_ports(added)


def unsealed(deployment: CliDeployment, endpoint: WebhookEndpoint) -> tuple[str, ...]:
    async def opened(ports: Ports) -> tuple[str, ...]:
        async with ports.store.read_view() as view:
            found = await view.webhooks.endpoint(endpoint.id)
        assert found is not None
        return deliveries.unseal_secrets(ports, found)

    return deployment.run_on_ports(opened)


def test_secrets_are_sealed_with_the_first_key(deployment: CliDeployment) -> None:
    """After a rotation the old key is not needed, and the secrets are unchanged."""
    use_keys(deployment, "old")
    made = [add(deployment) for _ in range(3)]
    use_keys(deployment, "new", "old")
    assert deployment.run_json("secrets", "rotate") == {**NOTHING, "resealed": 3}
    use_keys(deployment, "new")
    assert [unsealed(deployment, each) for each in made] == [(ENDPOINT_SECRET,)] * 3


def test_a_second_run_reseals_nothing(deployment: CliDeployment) -> None:
    """A second run re-seals nothing."""
    use_keys(deployment, "old")
    add(deployment)
    use_keys(deployment, "new", "old")
    assert deployment.run_table("secrets", "rotate") == (
        "Secrets of 1 webhooks were re-sealed.\nAddresses of 0 calendars were re-sealed.\n"
    )
    assert deployment.run_json("secrets", "rotate") == NOTHING


def test_every_batch_is_sealed(deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """All batches are re-sealed."""
    monkeypatch.setattr(secrets, "RESEAL_BATCH_SIZE", 2)
    use_keys(deployment, "old")
    for _ in range(5):
        add(deployment)
    use_keys(deployment, "new", "old")
    assert deployment.run_json("secrets", "rotate")["resealed"] == 5


def test_a_rotating_secret_is_resealed(deployment: CliDeployment) -> None:
    """During the rotation of an endpoint's secret both of its secrets are re-sealed and still
    sign."""
    use_keys(deployment, "old")
    endpoint = add(deployment)

    async def rotate(ports: Ports) -> None:
        sealed = ports.vault.seal(WEBHOOK_SECRET_PURPOSE, OTHER.encode(), endpoint.id)
        both = EndpointSecrets(endpoint.secrets.current, sealed, ports.clock.wall() + HOUR)
        changed = evolve(endpoint, secrets=both)
        await ports.store.run_transaction(lambda tx: tx.webhooks.save_endpoints([changed]))

    deployment.run_on_ports(rotate)
    use_keys(deployment, "new", "old")
    assert deployment.run_json("secrets", "rotate")["resealed"] == 1
    use_keys(deployment, "new")
    assert unsealed(deployment, endpoint) == (ENDPOINT_SECRET, OTHER)


def test_a_secret_that_no_key_opens_is_reported(deployment: CliDeployment) -> None:
    """An endpoint that no key opens is reported, the others are re-sealed, and the exit code is
    1."""
    use_keys(deployment, "lost")
    lost = add(deployment)
    use_keys(deployment, "old")
    add(deployment)
    use_keys(deployment, "new", "old")
    result = deployment.run_command("secrets", "rotate", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        **NOTHING,
        "resealed": 1,
        "broken": [lost.id],
    }
    assert result.stderr == (
        f"staffbooking: no key of STAFFBOOKING_SECRET_KEY opens webhooks {lost.id}\n"
    )


URL = "https://calendar.example/private-x9/basic.ics"


def subscribe(deployment: CliDeployment, email: str) -> CalendarSubscription:
    """Adds a calendar of a new staff member, whose address is sealed with the first current key."""

    async def added(ports: Ports) -> CalendarSubscription:
        fetcher = MemoryCalendarFetcher()
        fetcher.calendars[URL] = make_ics_calendar()
        user = await add_user(ports.store, email=email, role=Role.STAFF)
        command = AddCalendarAddress(url=URL)
        with_fetcher = evolve(ports, calendar_fetcher=fetcher)
        return await calendar_subscriptions.subscribe(with_fetcher, actor_of(user), command)

    return deployment.run_on_ports(added)


def calendar_address(deployment: CliDeployment, subscription: CalendarSubscription) -> str:
    async def opened(ports: Ports) -> str:
        async with ports.store.read_view() as view:
            (found,) = await view.calendar_subscriptions.subscriptions_of(subscription.companion_id)
        return ports.vault.open("calendar-address", found.address, found.id).decode()

    return deployment.run_on_ports(opened)


def test_addresses_of_calendars_are_resealed(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses of calendars are sealed with the first key too, in all batches; those that no key
    opens are reported."""
    monkeypatch.setattr(secrets, "RESEAL_BATCH_SIZE", 2)
    use_keys(deployment, "lost")
    lost = subscribe(deployment, "lost@example.com")
    use_keys(deployment, "old")
    made = [subscribe(deployment, f"{number}@example.com") for number in range(3)]
    use_keys(deployment, "new", "old")
    result = deployment.run_command("secrets", "rotate", "--json")
    calendars = {"resealed": 3, "broken": [lost.id]}
    assert (result.exit_code, json.loads(result.stdout)) == (1, {**NOTHING, "calendars": calendars})
    assert result.stderr.endswith(f"opens calendars {lost.id}\n")
    use_keys(deployment, "new")
    assert [calendar_address(deployment, each) for each in made] == [URL] * 3
