"""Gives the sample's best-known people their portraits and portfolios, through uploads."""

from __future__ import annotations

import anyio.to_thread

from staffbooking_cli.sample import texts
from staffbooking_cli.sample.art import portraits, scenes
from staffbooking_cli.sample.companions import SamplePerson
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.inputs import AddPortfolioItem, ChangeProfile
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.companions import approvals, images, profiles


async def add_portrait(ports: Ports, actor: Actor, person: SamplePerson) -> None:
    """Draw and upload a portrait, and complete the profile with it."""
    drawn = await anyio.to_thread.run_sync(portraits.draw_portrait, person.email, person.look)
    image = await images.upload_image(ports, actor, drawn)
    change = ChangeProfile(profile_photo=image.path, years_experience=person.years)
    await profiles.update_profile(ports, actor, change)


async def add_portfolio(
    ports: Ports, actor: Actor, person: SamplePerson, approved: int, pending: int
) -> None:
    """Draw and upload portfolio items: so many approved ones, then so many that wait."""
    trade, city = person.look.trade, person.row["location_city"]
    titles = scenes.scene_titles(trade)
    for number in range(approved + pending):
        title = titles[number % len(titles)]
        seed = f"{person.email} {number}"
        drawn = await anyio.to_thread.run_sync(scenes.draw_scene, seed, trade, title)
        image = await images.upload_image(ports, actor, drawn)
        text = texts.PORTFOLIO_TEXTS[(actor.user_id + number) % len(texts.PORTFOLIO_TEXTS)]
        command = AddPortfolioItem(
            title=title, image=image.path, description=text.format(city=city)
        )
        item = await profiles.add_portfolio_item(ports, actor, command)
        if number < approved:
            await approvals.moderate_item(ports, item.id, PortfolioItemStatus.APPROVED)
