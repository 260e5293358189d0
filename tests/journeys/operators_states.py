"""What operators work through: a disabled account, profiles and pictures that wait, inquiries."""

from __future__ import annotations

from typing import Any

from staffbooking_cli.sample.companions import PASSWORD
from tests.e2e.deployment import json_body
from tests.journeys.marketplace import Marketplace


def add_operators_work(market: Marketplace) -> None:
    """Note who and what waits in `names`; one account is disabled, one profile is a draft, and one
    inquiry comes in."""
    admin, names = market.client("admin"), market.names
    companions = _listed(market, "companions?status=pending")
    names["waiting"] = str(companions[0]["id"])
    names["picture"] = str(_listed(market, "portfolio?status=pending")[0]["id"])
    names["disabled"] = str(_register(market, "customer", "Dora", "Quill"))
    names["draft"] = str(_register(market, "staff", "Lea", "Draft"))
    given = {"reason": "Asked for it by phone"}
    json_body(admin.post(f"/api/admin/people/{names['disabled']}/disable", json=given))
    inquiry = {
        "name": "Ann Marlow",
        "email": "ann@demo.test",
        "subject": "Forty waiters in May",
        "message": "Can we book forty people for two nights, and get one invoice?",
    }
    market.client("newcomer").post("/contact", json=inquiry)
    names["inquiry"] = "1"


def _listed(market: Marketplace, path: str) -> list[dict[str, Any]]:
    answer = json_body(market.client("admin").get(f"/api/admin/{path}"))
    rows: list[dict[str, Any]] = answer[path.partition("?")[0]]
    return rows


def _register(market: Marketplace, role: str, first_name: str, last_name: str) -> int:
    """The id of a new account."""
    given = {
        "email": f"{first_name}.{last_name}@demo.test".lower(),
        "password": PASSWORD,
        "first_name": first_name,
        "last_name": last_name,
        "role": role,
    }
    answer = market.client("newcomer").post("/auth/register", json=given)
    user_id: int = json_body(answer, 201)["user"]["id"]
    return user_id
