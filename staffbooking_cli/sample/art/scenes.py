"""Draws pictures of events for the portfolios of the sample people."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from staffbooking_cli.sample.art import still_lifes
from staffbooking_cli.sample.art.canvas import Canvas, darken, lighten, mix, parse_color
from staffbooking_cli.sample.art.motifs import (
    ACCENTS,
    DAYS,
    DUSKS,
    GOLD,
    GREEN,
    INK,
    WHITE,
    WOOD,
    draw_glow,
    draw_leaf,
    draw_petals,
    draw_string_lights,
)


def _draw_stage(random: Random) -> Canvas:
    """A stage with beams of light over a crowd."""
    canvas = Canvas(parse_color("14122b"), parse_color("3c2358"))
    colors = random.sample(ACCENTS, 4)
    for index, color in enumerate(colors):
        x = 14 + index * 24
        aim = 50 + (index - 1.5) * random.uniform(8, 26)
        for spread, alpha in ((15, 46), (9, 60), (4, 90)):
            canvas.polygon(
                [(x - 1, 8), (x + 1, 8), (aim + spread, 82), (aim - spread, 82)], color, alpha
            )
    canvas.box(0, 4, 100, 6, parse_color("4a4560"))
    for index, color in enumerate(colors):
        canvas.box(11.5 + index * 24, 5, 16.5 + index * 24, 10, INK, 1)
        draw_glow(canvas, 14 + index * 24, 10, 6, lighten(color, 0.6))
    canvas.box(0, 66, 100, 74, parse_color("241c3d"))
    canvas.box(0, 66, 100, 67.2, parse_color("6d5a94"))
    canvas.box(38, 54, 62, 66, parse_color("191430"), 1)
    for x in (43, 57):
        canvas.ellipse(x, 60, 3.6, 3.6, random.choice(colors))
        canvas.ellipse(x, 60, 1.2, 1.2, INK)
    canvas.ellipse(50, 42, 4, 4.8, INK)
    canvas.shape([(43, 56), (44, 49), (50, 46.5), (56, 49), (57, 56)], INK)
    canvas.line([(56, 50), (62, 44), (64, 36)], INK, 2.4)
    for _ in range(26):
        left, top = random.uniform(-4, 104), random.uniform(84, 98)
        tone = mix(INK, parse_color("3a2a55"), (98 - top) / 14)
        canvas.ellipse(left, top, 4.4, 5, tone)
        canvas.ellipse(left, top + 13, 9, 10, tone)
        if random.random() < 0.4:
            canvas.line([(left + 5, top + 8), (left + 8, top - 8)], tone, 2)
    return canvas


def _draw_garden_party(random: Random) -> Canvas:
    """Round tables under chains of lights in the evening."""
    top, bottom = random.choice(DUSKS)
    canvas = Canvas(top, bottom)
    for x in range(-4, 108, 9):
        radius = random.uniform(8, 13)
        canvas.ellipse(x, 52, radius, radius, mix(darken(GREEN, 0.6), top, 0.35))
    canvas.box(0, 54, 100, 104, mix(darken(GREEN, 0.35), top, 0.3))
    draw_string_lights(canvas, 8, 14)
    accent = random.choice(ACCENTS)
    for x, y, size in ((24, 62, 0.7), (74, 63, 0.75), (48, 80, 1.15)):
        canvas.ellipse(x, y + 15 * size, 22 * size, 4 * size, INK, 70)
        canvas.polygon(
            [
                (x - 17 * size, y),
                (x + 17 * size, y),
                (x + 20 * size, y + 15 * size),
                (x - 20 * size, y + 15 * size),
            ],
            parse_color("e8e0d4"),
        )
        canvas.ellipse(x, y, 17 * size, 4.4 * size, WHITE)
        draw_glow(canvas, x, y - 6 * size, 9 * size, GOLD)
        canvas.box(x - 1.2 * size, y - 7 * size, x + 1.2 * size, y, WHITE)
        canvas.ellipse(x, y - 8.4 * size, 0.9 * size, 1.6 * size, lighten(GOLD, 0.5))
        for dx in (-6, 6):
            draw_petals(canvas, x + dx * size, y - 2 * size, 3 * size, lighten(accent, 0.3), 5)
    return canvas


def _draw_conference(random: Random) -> Canvas:
    """A speaker and a screen before an audience."""
    accent = random.choice(ACCENTS)
    canvas = Canvas(parse_color("27304a"), parse_color("4a5878"))
    canvas.box(20, 12, 90, 56, INK, 1.5)
    canvas.box(21.4, 13.4, 88.6, 54.6, parse_color("f2f4f8"), 1)
    canvas.box(27, 19, 58, 22, parse_color("3d4766"), 1)
    for y, end in ((26, 52), (30, 56), (34, 47)):
        canvas.box(27, y, end, y + 1.6, parse_color("b9c1d4"), 0.8)
    for index, height in enumerate(random.sample(range(8, 27), 4)):
        canvas.box(
            63 + index * 6, 50 - height, 67 + index * 6, 50, lighten(accent, 0.12 * index), 0.6
        )
    canvas.line([(27, 48), (36, 43), (44, 45), (55, 39)], accent, 1.2)
    canvas.box(0, 62, 100, 104, parse_color("1d2338"))
    canvas.polygon([(0, 62), (100, 62), (100, 65), (0, 65)], parse_color("5c6b92"))
    canvas.ellipse(11, 35, 3.6, 4.4, parse_color("d9a27c"))
    canvas.shape([(7.4, 34), (8, 30.4), (11, 29.6), (14.6, 31), (14.8, 34), (11, 32.6)], INK)
    canvas.shape([(5, 62), (4.6, 46), (8, 41), (14, 41), (17.4, 46), (17, 62)], accent)
    canvas.box(12, 48, 22, 63, darken(WOOD, 0.35), 1)
    for row, (y, size) in enumerate(((74, 3.6), (84, 4.6), (96, 5.8))):
        for column in range(9):
            x = column * 12.5 + (row % 2) * 6
            tone = mix(parse_color("10142a"), parse_color("39436a"), 0.8 - row * 0.36)
            canvas.ellipse(x, y, size, size * 1.15, tone)
            canvas.ellipse(x, y + size * 2.9, size * 2, size * 1.9, tone)
    return canvas


def _draw_wedding(random: Random) -> Canvas:
    """An arch of flowers before hills and a low sun."""
    top, bottom = random.choice(DAYS)
    canvas = Canvas(top, bottom)
    canvas.ellipse(50, 50, 13, 13, WHITE, 200)
    for level, share in ((52, 0.72), (59, 0.5), (66, 0.28)):
        wave = [(x, level + 4 * math.sin(x / 15 + level)) for x in range(-10, 115, 8)]
        canvas.polygon([*wave, (112, 110), (-10, 110)], mix(GREEN, bottom, share))
    canvas.polygon([(44, 70), (56, 70), (74, 104), (26, 104)], parse_color("f4efe6"))
    for side in (-1, 1):
        for row, (x, y) in enumerate(((30, 78), (24, 88), (15, 99))):
            size = 1 + row * 0.4
            chair = 50 + side * (50 - x)
            canvas.box(chair - 3 * size, y - 8 * size, chair + 3 * size, y, WHITE, 1)
            canvas.box(chair - 3 * size, y, chair + 3 * size, y + 1.4 * size, parse_color("d9d2c6"))
    canvas.frame(29, 18, 71, 110, WOOD, 20, 1.8)
    accent = random.choice(ACCENTS)
    for index in range(25):
        angle = math.pi + index * math.pi / 24
        bloom_x, bloom_y = 50 + math.cos(angle) * 20, 38 + math.sin(angle) * 19
        draw_leaf(canvas, bloom_x, bloom_y, random.uniform(0, 6.3), 7, GREEN)
        if index % 2:
            draw_petals(
                canvas,
                bloom_x,
                bloom_y,
                random.uniform(2.4, 4),
                lighten(accent, random.uniform(0.1, 0.7)),
            )
    for index in range(8):
        for side in (-1, 1):
            draw_leaf(canvas, 50 + side * 20, 40 + index * 4, random.uniform(0, 6.3), 6, GREEN)
    return canvas


def _draw_skyline(random: Random) -> Canvas:
    """A roof terrace over a city at dusk."""
    top, bottom = random.choice(DUSKS)
    canvas = Canvas(top, bottom)
    canvas.ellipse(72, 26, 9, 9, lighten(GOLD, 0.6), 210)
    for share, low, high in ((0.35, 30, 52), (0.75, 44, 64)):
        x, tone = -3.0, mix(bottom, darken(top, 0.4), share)
        while x < 102:
            width, roof = random.uniform(7, 14), random.uniform(low, high)
            canvas.box(x, roof, x + width, 104, tone)
            for _ in range(7):
                window_x, window_y = (
                    random.uniform(x + 1, x + width - 2),
                    random.uniform(roof + 2, 76),
                )
                canvas.box(window_x, window_y, window_x + 1.1, window_y + 1.7, GOLD, 0, 190)
            x += width + random.uniform(0, 1.4)
    canvas.box(0, 78, 100, 104, darken(WOOD, 0.35))
    for x in range(2, 100, 8):
        canvas.line([(x, 70), (x, 80)], INK, 0.7)
    canvas.box(0, 69, 100, 70.6, INK)
    for x in (22, 76):
        canvas.box(x - 6, 84, x + 6, 96, parse_color("c87c52"), 1.5)
        for index in range(9):
            draw_leaf(canvas, x, 85, -math.pi + index * math.pi / 8, 15, darken(GREEN, 0.2))
    draw_string_lights(canvas, 2, 8)
    return canvas


_SCENES: dict[str, tuple[tuple[str, Callable[[Random], Canvas]], ...]] = {
    "Bartender": (
        ("Signature cocktails", still_lifes.draw_cocktails),
        ("Roof terrace opening", _draw_skyline),
        ("Garden bar at a wedding", _draw_garden_party),
    ),
    "Waiter": (
        ("Gala dinner for 120", still_lifes.draw_table),
        ("Garden reception", _draw_garden_party),
        ("Plated service", still_lifes.draw_dish),
    ),
    "Host": (
        ("Registration at a summit", _draw_conference),
        ("Welcome desk flowers", still_lifes.draw_flowers),
        ("Terrace reception", _draw_skyline),
    ),
    "Security": (("Open-air concert", _draw_stage), ("Roof terrace party", _draw_skyline)),
    "Photographer": (
        ("Wedding in the hills", _draw_wedding),
        ("City at dusk", _draw_skyline),
        ("Concert, front row", _draw_stage),
    ),
    "DJ": (
        ("Vinyl set", still_lifes.draw_turntable),
        ("Summer festival", _draw_stage),
        ("Garden party until two", _draw_garden_party),
    ),
    "Chef": (
        ("Autumn menu, main course", still_lifes.draw_dish),
        ("Dinner for eight", still_lifes.draw_table),
        ("Paired with a Douro red", still_lifes.draw_wine),
    ),
    "Event manager": (
        ("Summer party", _draw_garden_party),
        ("Product launch", _draw_conference),
        ("Centrepieces", still_lifes.draw_flowers),
    ),
    "Barista": (
        ("Latte art", still_lifes.draw_coffee),
        ("Espresso bar at a fair", _draw_conference),
    ),
    "Sommelier": (
        ("Tasting at sunset", still_lifes.draw_wine),
        ("Pairing dinner", still_lifes.draw_table),
        ("Cellar evening", still_lifes.draw_cocktails),
    ),
    "AV technician": (
        ("Light show", _draw_stage),
        ("Hybrid conference", _draw_conference),
    ),
    "Interpreter": (("Whispered interpreting", _draw_conference),),
    "Videographer": (
        ("Wedding film", _draw_wedding),
        ("Aftermovie", _draw_stage),
        ("Campaign in the city", _draw_skyline),
    ),
}


def scene_titles(trade: str) -> tuple[str, ...]:
    """The titles of the pictures of a trade."""
    return tuple(title for title, _ in _SCENES[trade])


def draw_scene(seed: str, trade: str, title: str) -> bytes:
    """A picture of a trade's event as an image file: the same seed always draws the same."""
    draw = dict(_SCENES[trade])[title]
    return draw(Random(seed)).encode()
