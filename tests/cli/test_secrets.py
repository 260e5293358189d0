"""`staffbooking secrets rotate`: stored secrets move to the first key."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from staffbooking_adapters.vault import KeyringVault
from staffbooking_cli.commands import secrets
from staffbooking_core.domain.webhooks.deliveries import Endpoint, Secrets
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.deliveries import SEALED_FOR
from tests.cli.deployment import Deployment
from tests.support.builders import HOUR
from tests.support.webhooks import SECRET, add_endpoint

OTHER = SECRET.replace("c2", "d2")


def use_keys(deployment: Deployment, *keys: str) -> None:
    deployment.ports = evolve(deployment.ports, vault=KeyringVault(keys))


def add(deployment: Deployment) -> Endpoint:
    """An endpoint whose secret is sealed with the first of the keys in use."""

    async def added(ports: Ports) -> Endpoint:
        return await add_endpoint(ports.store, vault=ports.vault)

    return deployment.run(added)


def unsealed(deployment: Deployment, endpoint: Endpoint) -> tuple[str, ...]:
    async def opened(ports: Ports) -> tuple[str, ...]:
        async with ports.store.reading() as view:
            found = await view.webhooks.endpoint(endpoint.id)
        assert found is not None
        return deliveries.unsealed(ports, found)

    return deployment.run(opened)


def test_secrets_are_sealed_with_the_first_key(deployment: Deployment) -> None:
    """Afterwards the old key is not needed any more; the secrets are the same."""
    use_keys(deployment, "old")
    made = [add(deployment) for _ in range(3)]
    use_keys(deployment, "new", "old")
    assert deployment.json("secrets", "rotate") == {"resealed": 3, "broken": []}
    use_keys(deployment, "new")
    assert [unsealed(deployment, each) for each in made] == [(SECRET,)] * 3


def test_what_is_sealed_with_it_stays(deployment: Deployment) -> None:
    """A second run finds nothing to do."""
    use_keys(deployment, "old")
    add(deployment)
    use_keys(deployment, "new", "old")
    assert deployment.table("secrets", "rotate") == "Secrets of 1 webhooks were sealed anew.\n"
    assert deployment.json("secrets", "rotate") == {"resealed": 0, "broken": []}


def test_every_batch_is_sealed(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, all of them are reached."""
    monkeypatch.setattr(secrets, "BATCH", 2)
    use_keys(deployment, "old")
    for _ in range(5):
        add(deployment)
    use_keys(deployment, "new", "old")
    assert deployment.json("secrets", "rotate")["resealed"] == 5


def test_a_secret_on_its_way_in_is_sealed_too(deployment: Deployment) -> None:
    """While an endpoint's own secret is rotated, both go on to sign."""
    use_keys(deployment, "old")
    endpoint = add(deployment)

    async def rotate(ports: Ports) -> None:
        sealed = ports.vault.seal(SEALED_FOR, OTHER.encode(), endpoint.id)
        both = Secrets(endpoint.secrets.current, sealed, ports.clock.wall() + HOUR)
        changed = evolve(endpoint, secrets=both)
        await ports.store.write(lambda tx: tx.webhooks.save_endpoints([changed]))

    deployment.run(rotate)
    use_keys(deployment, "new", "old")
    assert deployment.json("secrets", "rotate")["resealed"] == 1
    use_keys(deployment, "new")
    assert unsealed(deployment, endpoint) == (SECRET, OTHER)


def test_a_secret_that_no_key_opens_holds_up_no_other(deployment: Deployment) -> None:
    """It is named, the rest is sealed anew, and the exit code is 1."""
    use_keys(deployment, "lost")
    lost = add(deployment)
    use_keys(deployment, "old")
    add(deployment)
    use_keys(deployment, "new", "old")
    result = deployment.staffbooking("secrets", "rotate", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"resealed": 1, "broken": [lost.id]}
    assert result.stderr == (
        f"staffbooking: no key of STAFFBOOKING_SECRET_KEY opens webhooks {lost.id}\n"
    )
