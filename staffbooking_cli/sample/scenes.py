"""Draws pictures of events for the portfolios of the sample people."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from staffbooking_cli.sample.drawing import (
    Canvas,
    Color,
    darken,
    lighten,
    mix,
    parse_color,
    parse_colors,
)

_WHITE, _INK = parse_color("fbf8f3"), parse_color("22202a")
_GOLD, _WOOD, _GREEN = parse_color("e7b955"), parse_color("a8724a"), parse_color("5f8a5b")
_ACCENTS = parse_colors("d9654f e0a13c 5a9e8f 5b7fc4 a8679f c8506f")
_DUSKS = tuple(
    parse_colors(pair)
    for pair in ("2b2a55 e88e6c", "1f3a5f f0b27a", "3d2c5c d9738f", "23395b 8fb8c9")
)
_DAYS = tuple(parse_colors(pair) for pair in ("cfe3f2 f8e1cf", "d9e6e0 f7ecd2", "e2dcf0 f8d9d0"))
_PAPERS = tuple(
    parse_colors(pair)
    for pair in ("f3ebe0 e2d2bd", "e6eee9 c8dad0", "ecebf4 cdcbe2", "f6e7e1 e5c5b8")
)


def _glow(canvas: Canvas, x: float, y: float, radius: float, color: Color) -> None:
    """A soft light."""
    for share, alpha in ((1, 26), (0.7, 36), (0.42, 70)):
        canvas.ellipse(x, y, radius * share, radius * share, color, alpha)


def _string_lights(canvas: Canvas, top: float, sag: float) -> None:
    """Two chains of bulbs from edge to edge."""
    for level in (top, top + 8):
        chain = [(x, level + sag * (1 - ((x - 50) / 50) ** 2)) for x in range(-5, 110, 5)]
        canvas.line(chain, _INK, 0.4)
        for x, y in chain[::2]:
            _glow(canvas, x, y + 1.6, 3.6, _GOLD)
            canvas.ellipse(x, y + 1.6, 1.1, 1.3, lighten(_GOLD, 0.55))


def _petals(
    canvas: Canvas, x: float, y: float, radius: float, color: Color, count: int = 6
) -> None:
    """A blossom."""
    for index in range(count):
        angle = 2 * math.pi * index / count
        canvas.ellipse(
            x + math.cos(angle) * radius * 0.62,
            y + math.sin(angle) * radius * 0.62,
            radius * 0.56,
            radius * 0.56,
            color,
        )
    canvas.ellipse(x, y, radius * 0.36, radius * 0.36, _GOLD)


def _leaf(canvas: Canvas, x: float, y: float, angle: float, length: float, color: Color) -> None:
    along, across = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))

    def at(forward: float, aside: float) -> tuple[float, float]:
        return (
            x + along[0] * forward + across[0] * aside,
            y + along[1] * forward + across[1] * aside,
        )

    half = length / 2
    canvas.shape([at(0, 0), at(half, length * 0.2), at(length, 0), at(half, -length * 0.2)], color)
    canvas.line([at(0, 0), at(length * 0.9, 0)], darken(color, 0.2), 0.35)


# Scenes ---------------------------------------------------------------------------------


def _draw_cocktails(random: Random) -> Canvas:
    """Three glasses on a bar, before shelves of bottles."""
    top, bottom = random.choice(_DUSKS)
    canvas = Canvas(top, darken(bottom, 0.5))
    for shelf in (20, 42):
        x = 4.0
        while x < 96:
            width, height = random.uniform(4, 6), random.uniform(11, 16)
            glass = mix(random.choice(_ACCENTS), top, 0.45)
            canvas.box(x, shelf - height, x + width, shelf, glass, 1.4)
            canvas.box(
                x + width * 0.34, shelf - height - 4, x + width * 0.66, shelf - 4, glass, 0.6
            )
            canvas.box(
                x + 0.8, shelf - height * 0.6, x + width - 0.8, shelf - 4, lighten(glass, 0.4)
            )
            x += width + random.uniform(1.6, 3)
        canvas.box(0, shelf, 100, shelf + 1.6, darken(_WOOD, 0.45))
    for x in (18, 50, 82):
        _glow(canvas, x, 8, 20, _GOLD)
    canvas.box(0, 80, 100, 104, darken(_WOOD, 0.15))
    canvas.box(0, 80, 100, 83, lighten(_WOOD, 0.15))
    drinks = random.sample(_ACCENTS, 3)
    _martini(canvas, 22, drinks[0])
    _tumbler(canvas, 50, drinks[1])
    _flute(canvas, 77, drinks[2])
    return canvas


def _martini(canvas: Canvas, x: float, drink: Color) -> None:
    canvas.ellipse(x, 81.5, 8, 1.6, _WHITE, 110)
    canvas.line([(x, 62), (x, 81)], _WHITE, 0.9, 190)
    canvas.polygon([(x - 13, 44), (x + 13, 44), (x, 63)], _WHITE, 90)
    canvas.polygon([(x - 10.4, 48), (x + 10.4, 48), (x, 62.4)], drink)
    canvas.ellipse(x, 48, 10.4, 1.5, lighten(drink, 0.25))
    canvas.line([(x - 7, 40), (x + 4, 53)], lighten(_WOOD, 0.3), 0.7)
    canvas.ellipse(x - 3.4, 44.2, 2, 2, _GREEN)


def _tumbler(canvas: Canvas, x: float, drink: Color) -> None:
    canvas.polygon([(x - 9, 54), (x + 9, 54), (x + 7.6, 82), (x - 7.6, 82)], _WHITE, 80)
    canvas.polygon([(x - 8.5, 60), (x + 8.5, 60), (x + 7.2, 80.5), (x - 7.2, 80.5)], drink)
    for left, top in ((-6, 61), (0.5, 63.5), (-3.4, 69)):
        canvas.box(x + left, top, x + left + 5.6, top + 5.6, _WHITE, 1, 120)
    canvas.ellipse(x + 8, 54, 4.4, 4.4, parse_color("f2a43b"))
    canvas.ellipse(x + 8, 54, 3.4, 3.4, parse_color("f7c56c"))


def _flute(canvas: Canvas, x: float, drink: Color) -> None:
    canvas.ellipse(x, 81.5, 6.5, 1.4, _WHITE, 110)
    canvas.line([(x, 66), (x, 81)], _WHITE, 0.9, 190)
    canvas.shape([(x - 5, 38), (x + 5, 38), (x + 5, 56), (x, 67), (x - 5, 56)], _WHITE, 90)
    canvas.shape([(x - 4.2, 45), (x + 4.2, 45), (x + 4.2, 56), (x, 65.5), (x - 4.2, 56)], drink)
    for dx, y in ((-1.4, 58), (1, 52), (-0.6, 48.5), (1.6, 60)):
        canvas.ellipse(x + dx, y, 0.6, 0.6, _WHITE, 200)


def _draw_table(random: Random) -> Canvas:
    """A laid table, seen from above."""
    top, bottom = random.choice(_PAPERS)
    canvas = Canvas(top, bottom)
    accent = random.choice(_ACCENTS)
    canvas.box(30, -4, 70, 104, mix(accent, bottom, 0.72))
    shade = darken(bottom, 0.4)
    canvas.ellipse(51, 54, 31, 31, shade, 40)
    canvas.ellipse(50, 52, 31, 31, lighten(_WHITE, 0.6))
    canvas.ring(50, 52, 28.6, 28.6, _GOLD, 0.7)
    canvas.ellipse(50, 52, 21, 21, mix(_WHITE, bottom, 0.25))
    canvas.ellipse(50, 52, 18.4, 18.4, _WHITE)
    silver, dark = parse_color("b9bec6"), parse_color("8e959f")
    canvas.line([(11, 40), (11, 76)], silver, 1.6)
    for x in (8.8, 11, 13.2):
        canvas.line([(x, 26), (x, 38)], silver, 0.8)
    canvas.line([(8.8, 38), (11, 41), (13.2, 38)], silver, 1.4)
    canvas.line([(89, 52), (89, 77)], silver, 1.6)
    canvas.shape([(87.6, 26), (90.6, 28), (91, 44), (89.8, 53), (87.8, 53)], silver)
    canvas.line([(88.4, 28), (88.4, 52)], dark, 0.3)
    canvas.polygon([(42, 40), (58, 40), (60, 66), (40, 66)], accent)
    canvas.polygon([(42, 40), (50, 52), (40, 66)], darken(accent, 0.16))
    for index in range(5):
        _leaf(canvas, 50, 60, -math.pi / 2 + (index - 2) * 0.42, 17 - abs(index - 2) * 2, _GREEN)
    _petals(canvas, 50, 59, 4.6, lighten(accent, 0.75))
    canvas.ellipse(84, 14, 8, 8, _WHITE, 120)
    canvas.ring(84, 14, 8, 8, _WHITE, 0.8)
    canvas.ellipse(84, 14, 5.6, 5.6, random.choice(parse_colors("8f2f45 e9d08a")), 210)
    return canvas


def _draw_stage(random: Random) -> Canvas:
    """A stage with beams of light over a crowd."""
    canvas = Canvas(parse_color("14122b"), parse_color("3c2358"))
    colors = random.sample(_ACCENTS, 4)
    for index, color in enumerate(colors):
        x = 14 + index * 24
        aim = 50 + (index - 1.5) * random.uniform(8, 26)
        for spread, alpha in ((15, 46), (9, 60), (4, 90)):
            canvas.polygon(
                [(x - 1, 8), (x + 1, 8), (aim + spread, 82), (aim - spread, 82)], color, alpha
            )
    canvas.box(0, 4, 100, 6, parse_color("4a4560"))
    for index, color in enumerate(colors):
        canvas.box(11.5 + index * 24, 5, 16.5 + index * 24, 10, _INK, 1)
        _glow(canvas, 14 + index * 24, 10, 6, lighten(color, 0.6))
    canvas.box(0, 66, 100, 74, parse_color("241c3d"))
    canvas.box(0, 66, 100, 67.2, parse_color("6d5a94"))
    canvas.box(38, 54, 62, 66, parse_color("191430"), 1)
    for x in (43, 57):
        canvas.ellipse(x, 60, 3.6, 3.6, random.choice(colors))
        canvas.ellipse(x, 60, 1.2, 1.2, _INK)
    canvas.ellipse(50, 42, 4, 4.8, _INK)
    canvas.shape([(43, 56), (44, 49), (50, 46.5), (56, 49), (57, 56)], _INK)
    canvas.line([(56, 50), (62, 44), (64, 36)], _INK, 2.4)
    for _ in range(26):
        x, y = random.uniform(-4, 104), random.uniform(84, 98)
        tone = mix(_INK, parse_color("3a2a55"), (98 - y) / 14)
        canvas.ellipse(x, y, 4.4, 5, tone)
        canvas.ellipse(x, y + 13, 9, 10, tone)
        if random.random() < 0.4:
            canvas.line([(x + 5, y + 8), (x + 8, y - 8)], tone, 2)
    return canvas


def _draw_turntable(random: Random) -> Canvas:
    """A record on a turntable, seen from above."""
    accent = random.choice(_ACCENTS)
    canvas = Canvas(lighten(accent, 0.35), darken(accent, 0.1))
    canvas.box(10, 14, 94, 92, darken(accent, 0.6), 5, 90)
    canvas.box(8, 11, 92, 89, parse_color("e9e4dc"), 5)
    canvas.ellipse(43, 50, 33, 33, parse_color("c9c2b8"))
    canvas.ellipse(43, 50, 31, 31, _INK)
    for radius in (28, 25, 22, 19, 16):
        canvas.ring(43, 50, radius, radius, lighten(_INK, 0.14), 0.3)
    canvas.polygon([(43, 50), (66, 29), (71, 36)], _WHITE, 26)
    canvas.polygon([(43, 50), (20, 71), (15, 64)], _WHITE, 26)
    canvas.ellipse(43, 50, 11, 11, accent)
    canvas.ring(43, 50, 7.6, 7.6, lighten(accent, 0.5), 0.6)
    canvas.ellipse(43, 50, 1.4, 1.4, _WHITE)
    canvas.ellipse(83, 24, 5.4, 5.4, parse_color("b6afa6"))
    canvas.line([(83, 24), (82, 60), (67, 72)], parse_color("7d7a80"), 1.8)
    canvas.box(63, 69, 70, 76, _INK, 1)
    for y in (70, 77):
        canvas.ellipse(84, y, 2.4, 2.4, accent)
    canvas.box(76, 82, 88, 84, parse_color("b6afa6"), 1)
    return canvas


def _draw_dish(random: Random) -> Canvas:
    """A plate of food, seen from above."""
    base = random.choice(parse_colors("3d4a47 4b3f44 2f4050 5a4a3c"))
    canvas = Canvas(lighten(base, 0.12), darken(base, 0.2))
    for index in range(8):
        y = index * 13.0
        canvas.line([(-2, y), (102, y + 1)], darken(base, 0.3), 0.4, 120)
    canvas.ellipse(52, 54, 41, 41, parse_color("0f1214"), 70)
    canvas.ellipse(50, 50, 41, 41, parse_color("f4efe7"))
    canvas.ellipse(50, 50, 31, 31, parse_color("e6ddd0"))
    canvas.ellipse(50, 50, 29.6, 29.6, parse_color("faf6ef"))
    sauce, main = random.sample(_ACCENTS, 2)
    canvas.shape([(29, 58), (33, 44), (46, 37), (62, 38), (70, 50), (64, 64), (46, 68)], sauce)
    canvas.shape([(34, 57), (38, 46), (48, 42), (60, 44), (64, 52), (58, 60)], lighten(sauce, 0.2))
    for index in range(5):
        x = 38 + index * 5.4
        canvas.box(x, 43 + abs(index - 2), x + 4.6, 60 - abs(index - 2), mix(main, _WOOD, 0.5), 2)
        canvas.box(x + 0.8, 44.4 + abs(index - 2), x + 2, 58 - abs(index - 2), _WHITE, 0.5, 70)
    for _ in range(7):
        angle = random.uniform(0, 2 * math.pi)
        _leaf(canvas, 50 + math.cos(angle) * 5, 50 + math.sin(angle) * 5, angle, 12, _GREEN)
    for index in range(9):
        angle = 0.4 + index * 0.32
        canvas.ellipse(50 + math.cos(angle) * 24, 50 + math.sin(angle) * 24, 1.3, 1.3, main)
    _petals(canvas, 50, 49, 3.6, lighten(main, 0.65), 5)
    return canvas


def _draw_coffee(random: Random) -> Canvas:
    """A cup with a heart in the milk, seen from above."""
    top, bottom = random.choice(_PAPERS)
    canvas = Canvas(mix(top, _WOOD, 0.3), mix(bottom, _WOOD, 0.55))
    for index in range(7):
        canvas.line([(-2, 8 + index * 14), (102, 10 + index * 14)], darken(_WOOD, 0.2), 0.5, 90)
    canvas.ellipse(51, 55, 38, 38, _INK, 50)
    cup = lighten(random.choice(_ACCENTS), 0.25)
    canvas.ellipse(49, 51, 38, 38, _WHITE)
    canvas.ellipse(49, 51, 31, 31, parse_color("ece6dc"))
    canvas.box(74, 45, 92, 57, cup, 6)
    canvas.box(76, 48, 88, 54, _WHITE, 3)
    canvas.ellipse(49, 51, 28, 28, cup)
    canvas.ellipse(49, 51, 25, 25, parse_color("6f4128"))
    canvas.ellipse(49, 51, 23.4, 23.4, parse_color("a9683c"))
    foam = parse_color("f7e8d2")
    for scale, y in ((1, 0), (0.66, 1.4), (0.36, 2.6)):
        heart = [(0, 15), (-14, 2), (-13, -9), (-6, -12), (0, -7), (6, -12), (13, -9), (14, 2)]
        color = foam if scale != 0.66 else parse_color("b9783f")
        canvas.shape([(49 + x * scale, 51 + y + dy * scale) for x, dy in heart], color)
    for x, y, angle in ((12, 88, 0.5), (20, 93, 2.2), (88, 14, 1.1)):
        canvas.ellipse(x, y, 3.2, 2.4, darken(_WOOD, 0.55))
        canvas.line([(x - 2.4, y), (x, y - 0.6 * angle), (x + 2.4, y)], _WOOD, 0.4)
    return canvas


def _draw_wine(random: Random) -> Canvas:
    """A bottle and a glass before a window with hills."""
    top, bottom = random.choice(_DUSKS)
    canvas = Canvas(lighten(top, 0.2), lighten(bottom, 0.2))
    canvas.ellipse(66, 42, 11, 11, lighten(_GOLD, 0.4), 220)
    for level, share in ((54, 0.25), (62, 0.5), (70, 0.75)):
        hill = mix(bottom, darken(top, 0.3), share)
        wave = [(x, level + 5 * math.sin(x / 13 + level)) for x in range(-10, 115, 8)]
        canvas.polygon([*wave, (112, 110), (-10, 110)], hill)
    canvas.box(0, 82, 100, 104, _WOOD)
    canvas.box(0, 82, 100, 84, lighten(_WOOD, 0.25))
    bottle = parse_color("23402f")
    canvas.box(24, 14, 31, 40, bottle, 1)
    canvas.shape([(24.4, 30), (30.6, 30), (34, 42), (36.5, 50), (18.5, 50), (21, 42)], bottle)
    canvas.box(18, 45, 37, 85, bottle, 2)
    canvas.box(23.6, 12, 31.4, 22, random.choice(_ACCENTS), 1)
    canvas.box(18, 56, 37, 74, parse_color("f1e8d6"))
    canvas.box(21, 60, 34, 61.4, _GOLD)
    canvas.box(21, 64, 30, 65, parse_color("a59a86"))
    canvas.box(20, 46, 22, 84, _WHITE, 1, 60)
    wine = random.choice(parse_colors("8f2540 8f2540 e6c766"))
    canvas.ellipse(68, 84.5, 11, 2, _WHITE, 170)
    canvas.line([(68, 64), (68, 84)], _WHITE, 1.2, 220)
    bowl = [(56, 30), (80, 30), (82, 46), (77, 58), (68, 65), (59, 58), (54, 46)]
    canvas.shape(bowl, _WHITE, 80)
    canvas.shape([(54.6, 46), (81.4, 46), (77, 57.4), (68, 63.8), (59, 57.4)], wine)
    canvas.ellipse(68, 46, 13, 2, lighten(wine, 0.2))
    return canvas


def _draw_garden_party(random: Random) -> Canvas:
    """Round tables under chains of lights in the evening."""
    top, bottom = random.choice(_DUSKS)
    canvas = Canvas(top, bottom)
    for x in range(-4, 108, 9):
        radius = random.uniform(8, 13)
        canvas.ellipse(x, 52, radius, radius, mix(darken(_GREEN, 0.6), top, 0.35))
    canvas.box(0, 54, 100, 104, mix(darken(_GREEN, 0.35), top, 0.3))
    _string_lights(canvas, 8, 14)
    accent = random.choice(_ACCENTS)
    for x, y, size in ((24, 62, 0.7), (74, 63, 0.75), (48, 80, 1.15)):
        canvas.ellipse(x, y + 15 * size, 22 * size, 4 * size, _INK, 70)
        canvas.polygon(
            [
                (x - 17 * size, y),
                (x + 17 * size, y),
                (x + 20 * size, y + 15 * size),
                (x - 20 * size, y + 15 * size),
            ],
            parse_color("e8e0d4"),
        )
        canvas.ellipse(x, y, 17 * size, 4.4 * size, _WHITE)
        _glow(canvas, x, y - 6 * size, 9 * size, _GOLD)
        canvas.box(x - 1.2 * size, y - 7 * size, x + 1.2 * size, y, _WHITE)
        canvas.ellipse(x, y - 8.4 * size, 0.9 * size, 1.6 * size, lighten(_GOLD, 0.5))
        for dx in (-6, 6):
            _petals(canvas, x + dx * size, y - 2 * size, 3 * size, lighten(accent, 0.3), 5)
    return canvas


def _draw_flowers(random: Random) -> Canvas:
    """A bouquet in a vase."""
    top, bottom = random.choice(_PAPERS)
    canvas = Canvas(top, bottom)
    canvas.ellipse(50, 44, 38, 38, lighten(top, 0.55), 190)
    canvas.box(0, 86, 100, 104, darken(bottom, 0.22))
    blossoms = [
        (50 + math.cos(angle) * reach, 38 + math.sin(angle) * reach * 0.8)
        for angle, reach in ((index * 2.4, 4.4 * math.sqrt(index)) for index in range(17))
    ]
    for x, y in blossoms:
        canvas.line([(50, 70), ((50 + x) / 2, (70 + y) / 2 + 2), (x, y)], darken(_GREEN, 0.1), 0.9)
    for index in range(11):
        angle = -math.pi + index * math.pi / 10
        _leaf(canvas, 50 + math.cos(angle) * 13, 42 + math.sin(angle) * 11, angle, 14, _GREEN)
    colors = random.sample(_ACCENTS, 3)
    for index, (x, y) in enumerate(reversed(blossoms)):
        color = lighten(colors[index % 3], 0.1 + 0.3 * random.random())
        _petals(canvas, x, y, random.uniform(4.4, 6.6), color, random.choice((5, 6, 8)))
    vase = random.choice(_ACCENTS)
    canvas.shape(
        [(42, 64), (58, 64), (57, 70), (63, 80), (60, 92), (40, 92), (37, 80), (43, 70)], vase
    )
    canvas.shape(
        [(52, 65), (58, 64), (57, 70), (63, 80), (60, 92), (53, 92), (57, 80)], darken(vase, 0.18)
    )
    return canvas


def _draw_conference(random: Random) -> Canvas:
    """A speaker and a screen before an audience."""
    accent = random.choice(_ACCENTS)
    canvas = Canvas(parse_color("27304a"), parse_color("4a5878"))
    canvas.box(20, 12, 90, 56, _INK, 1.5)
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
    canvas.shape([(7.4, 34), (8, 30.4), (11, 29.6), (14.6, 31), (14.8, 34), (11, 32.6)], _INK)
    canvas.shape([(5, 62), (4.6, 46), (8, 41), (14, 41), (17.4, 46), (17, 62)], accent)
    canvas.box(12, 48, 22, 63, darken(_WOOD, 0.35), 1)
    for row, (y, size) in enumerate(((74, 3.6), (84, 4.6), (96, 5.8))):
        for column in range(9):
            x = column * 12.5 + (row % 2) * 6
            tone = mix(parse_color("10142a"), parse_color("39436a"), 0.8 - row * 0.36)
            canvas.ellipse(x, y, size, size * 1.15, tone)
            canvas.ellipse(x, y + size * 2.9, size * 2, size * 1.9, tone)
    return canvas


def _draw_wedding(random: Random) -> Canvas:
    """An arch of flowers before hills and a low sun."""
    top, bottom = random.choice(_DAYS)
    canvas = Canvas(top, bottom)
    canvas.ellipse(50, 50, 13, 13, _WHITE, 200)
    for level, share in ((52, 0.72), (59, 0.5), (66, 0.28)):
        wave = [(x, level + 4 * math.sin(x / 15 + level)) for x in range(-10, 115, 8)]
        canvas.polygon([*wave, (112, 110), (-10, 110)], mix(_GREEN, bottom, share))
    canvas.polygon([(44, 70), (56, 70), (74, 104), (26, 104)], parse_color("f4efe6"))
    for side in (-1, 1):
        for row, (x, y) in enumerate(((30, 78), (24, 88), (15, 99))):
            size = 1 + row * 0.4
            chair = 50 + side * (50 - x)
            canvas.box(chair - 3 * size, y - 8 * size, chair + 3 * size, y, _WHITE, 1)
            canvas.box(chair - 3 * size, y, chair + 3 * size, y + 1.4 * size, parse_color("d9d2c6"))
    canvas.frame(29, 18, 71, 110, _WOOD, 20, 1.8)
    accent = random.choice(_ACCENTS)
    for index in range(25):
        angle = math.pi + index * math.pi / 24
        x, y = 50 + math.cos(angle) * 20, 38 + math.sin(angle) * 19
        _leaf(canvas, x, y, random.uniform(0, 6.3), 7, _GREEN)
        if index % 2:
            _petals(canvas, x, y, random.uniform(2.4, 4), lighten(accent, random.uniform(0.1, 0.7)))
    for index in range(8):
        for side in (-1, 1):
            _leaf(canvas, 50 + side * 20, 40 + index * 4, random.uniform(0, 6.3), 6, _GREEN)
    return canvas


def _draw_skyline(random: Random) -> Canvas:
    """A roof terrace over a city at dusk."""
    top, bottom = random.choice(_DUSKS)
    canvas = Canvas(top, bottom)
    canvas.ellipse(72, 26, 9, 9, lighten(_GOLD, 0.6), 210)
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
                canvas.box(window_x, window_y, window_x + 1.1, window_y + 1.7, _GOLD, 0, 190)
            x += width + random.uniform(0, 1.4)
    canvas.box(0, 78, 100, 104, darken(_WOOD, 0.35))
    for x in range(2, 100, 8):
        canvas.line([(x, 70), (x, 80)], _INK, 0.7)
    canvas.box(0, 69, 100, 70.6, _INK)
    for x in (22, 76):
        canvas.box(x - 6, 84, x + 6, 96, parse_color("c87c52"), 1.5)
        for index in range(9):
            _leaf(canvas, x, 85, -math.pi + index * math.pi / 8, 15, darken(_GREEN, 0.2))
    _string_lights(canvas, 2, 8)
    return canvas


_SCENES: dict[str, tuple[tuple[str, Callable[[Random], Canvas]], ...]] = {
    "Bartender": (
        ("Signature cocktails", _draw_cocktails),
        ("Roof terrace opening", _draw_skyline),
        ("Garden bar at a wedding", _draw_garden_party),
    ),
    "Waiter": (
        ("Gala dinner for 120", _draw_table),
        ("Garden reception", _draw_garden_party),
        ("Plated service", _draw_dish),
    ),
    "Host": (
        ("Registration at a summit", _draw_conference),
        ("Welcome desk flowers", _draw_flowers),
        ("Terrace reception", _draw_skyline),
    ),
    "Security": (("Open-air concert", _draw_stage), ("Roof terrace party", _draw_skyline)),
    "Photographer": (
        ("Wedding in the hills", _draw_wedding),
        ("City at dusk", _draw_skyline),
        ("Concert, front row", _draw_stage),
    ),
    "DJ": (
        ("Vinyl set", _draw_turntable),
        ("Summer festival", _draw_stage),
        ("Garden party until two", _draw_garden_party),
    ),
    "Chef": (
        ("Autumn menu, main course", _draw_dish),
        ("Dinner for eight", _draw_table),
        ("Paired with a Douro red", _draw_wine),
    ),
    "Event manager": (
        ("Summer party", _draw_garden_party),
        ("Product launch", _draw_conference),
        ("Centrepieces", _draw_flowers),
    ),
    "Barista": (("Latte art", _draw_coffee), ("Espresso bar at a fair", _draw_conference)),
    "Sommelier": (
        ("Tasting at sunset", _draw_wine),
        ("Pairing dinner", _draw_table),
        ("Cellar evening", _draw_cocktails),
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
