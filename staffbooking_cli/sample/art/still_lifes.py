"""Draws drinks, dishes and things of events, as portfolio pictures."""

from __future__ import annotations

import math
from random import Random

from staffbooking_cli.sample.art.canvas import (
    Canvas,
    Color,
    darken,
    lighten,
    mix,
    parse_color,
    parse_colors,
)
from staffbooking_cli.sample.art.motifs import (
    ACCENTS,
    DUSKS,
    GOLD,
    GREEN,
    INK,
    PAPERS,
    WHITE,
    WOOD,
    draw_glow,
    draw_leaf,
    draw_petals,
)


def draw_cocktails(random: Random) -> Canvas:
    """Three glasses on a bar, before shelves of bottles."""
    top, bottom = random.choice(DUSKS)
    canvas = Canvas(top, darken(bottom, 0.5))
    for shelf in (20, 42):
        x = 4.0
        while x < 96:
            width, height = random.uniform(4, 6), random.uniform(11, 16)
            glass = mix(random.choice(ACCENTS), top, 0.45)
            canvas.box(x, shelf - height, x + width, shelf, glass, 1.4)
            canvas.box(
                x + width * 0.34, shelf - height - 4, x + width * 0.66, shelf - 4, glass, 0.6
            )
            canvas.box(
                x + 0.8, shelf - height * 0.6, x + width - 0.8, shelf - 4, lighten(glass, 0.4)
            )
            x += width + random.uniform(1.6, 3)
        canvas.box(0, shelf, 100, shelf + 1.6, darken(WOOD, 0.45))
    for x in (18, 50, 82):
        draw_glow(canvas, x, 8, 20, GOLD)
    canvas.box(0, 80, 100, 104, darken(WOOD, 0.15))
    canvas.box(0, 80, 100, 83, lighten(WOOD, 0.15))
    drinks = random.sample(ACCENTS, 3)
    _martini(canvas, 22, drinks[0])
    _tumbler(canvas, 50, drinks[1])
    _flute(canvas, 77, drinks[2])
    return canvas


def _martini(canvas: Canvas, x: float, drink: Color) -> None:
    canvas.ellipse(x, 81.5, 8, 1.6, WHITE, 110)
    canvas.line([(x, 62), (x, 81)], WHITE, 0.9, 190)
    canvas.polygon([(x - 13, 44), (x + 13, 44), (x, 63)], WHITE, 90)
    canvas.polygon([(x - 10.4, 48), (x + 10.4, 48), (x, 62.4)], drink)
    canvas.ellipse(x, 48, 10.4, 1.5, lighten(drink, 0.25))
    canvas.line([(x - 7, 40), (x + 4, 53)], lighten(WOOD, 0.3), 0.7)
    canvas.ellipse(x - 3.4, 44.2, 2, 2, GREEN)


def _tumbler(canvas: Canvas, x: float, drink: Color) -> None:
    canvas.polygon([(x - 9, 54), (x + 9, 54), (x + 7.6, 82), (x - 7.6, 82)], WHITE, 80)
    canvas.polygon([(x - 8.5, 60), (x + 8.5, 60), (x + 7.2, 80.5), (x - 7.2, 80.5)], drink)
    for left, top in ((-6, 61), (0.5, 63.5), (-3.4, 69)):
        canvas.box(x + left, top, x + left + 5.6, top + 5.6, WHITE, 1, 120)
    canvas.ellipse(x + 8, 54, 4.4, 4.4, parse_color("f2a43b"))
    canvas.ellipse(x + 8, 54, 3.4, 3.4, parse_color("f7c56c"))


def _flute(canvas: Canvas, x: float, drink: Color) -> None:
    canvas.ellipse(x, 81.5, 6.5, 1.4, WHITE, 110)
    canvas.line([(x, 66), (x, 81)], WHITE, 0.9, 190)
    canvas.shape([(x - 5, 38), (x + 5, 38), (x + 5, 56), (x, 67), (x - 5, 56)], WHITE, 90)
    canvas.shape([(x - 4.2, 45), (x + 4.2, 45), (x + 4.2, 56), (x, 65.5), (x - 4.2, 56)], drink)
    for dx, y in ((-1.4, 58), (1, 52), (-0.6, 48.5), (1.6, 60)):
        canvas.ellipse(x + dx, y, 0.6, 0.6, WHITE, 200)


def draw_table(random: Random) -> Canvas:
    """A laid table, seen from above."""
    top, bottom = random.choice(PAPERS)
    canvas = Canvas(top, bottom)
    accent = random.choice(ACCENTS)
    canvas.box(30, -4, 70, 104, mix(accent, bottom, 0.72))
    shade = darken(bottom, 0.4)
    canvas.ellipse(51, 54, 31, 31, shade, 40)
    canvas.ellipse(50, 52, 31, 31, lighten(WHITE, 0.6))
    canvas.ring(50, 52, 28.6, 28.6, GOLD, 0.7)
    canvas.ellipse(50, 52, 21, 21, mix(WHITE, bottom, 0.25))
    canvas.ellipse(50, 52, 18.4, 18.4, WHITE)
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
        draw_leaf(canvas, 50, 60, -math.pi / 2 + (index - 2) * 0.42, 17 - abs(index - 2) * 2, GREEN)
    draw_petals(canvas, 50, 59, 4.6, lighten(accent, 0.75))
    canvas.ellipse(84, 14, 8, 8, WHITE, 120)
    canvas.ring(84, 14, 8, 8, WHITE, 0.8)
    canvas.ellipse(84, 14, 5.6, 5.6, random.choice(parse_colors("8f2f45 e9d08a")), 210)
    return canvas


def draw_turntable(random: Random) -> Canvas:
    """A record on a turntable, seen from above."""
    accent = random.choice(ACCENTS)
    canvas = Canvas(lighten(accent, 0.35), darken(accent, 0.1))
    canvas.box(10, 14, 94, 92, darken(accent, 0.6), 5, 90)
    canvas.box(8, 11, 92, 89, parse_color("e9e4dc"), 5)
    canvas.ellipse(43, 50, 33, 33, parse_color("c9c2b8"))
    canvas.ellipse(43, 50, 31, 31, INK)
    for radius in (28, 25, 22, 19, 16):
        canvas.ring(43, 50, radius, radius, lighten(INK, 0.14), 0.3)
    canvas.polygon([(43, 50), (66, 29), (71, 36)], WHITE, 26)
    canvas.polygon([(43, 50), (20, 71), (15, 64)], WHITE, 26)
    canvas.ellipse(43, 50, 11, 11, accent)
    canvas.ring(43, 50, 7.6, 7.6, lighten(accent, 0.5), 0.6)
    canvas.ellipse(43, 50, 1.4, 1.4, WHITE)
    canvas.ellipse(83, 24, 5.4, 5.4, parse_color("b6afa6"))
    canvas.line([(83, 24), (82, 60), (67, 72)], parse_color("7d7a80"), 1.8)
    canvas.box(63, 69, 70, 76, INK, 1)
    for y in (70, 77):
        canvas.ellipse(84, y, 2.4, 2.4, accent)
    canvas.box(76, 82, 88, 84, parse_color("b6afa6"), 1)
    return canvas


def draw_dish(random: Random) -> Canvas:
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
    sauce = random.choice(parse_colors("c8553d d9912f 8a9a4b b5485a"))
    main = random.choice(ACCENTS[:2])
    canvas.shape([(29, 58), (33, 44), (46, 37), (62, 38), (70, 50), (64, 64), (46, 68)], sauce)
    canvas.shape([(34, 57), (38, 46), (48, 42), (60, 44), (64, 52), (58, 60)], lighten(sauce, 0.2))
    for index in range(5):
        x = 38 + index * 5.4
        canvas.box(x, 43 + abs(index - 2), x + 4.6, 60 - abs(index - 2), mix(main, WOOD, 0.5), 2)
        canvas.box(x + 0.8, 44.4 + abs(index - 2), x + 2, 58 - abs(index - 2), WHITE, 0.5, 70)
    for _ in range(7):
        angle = random.uniform(0, 2 * math.pi)
        draw_leaf(canvas, 50 + math.cos(angle) * 5, 50 + math.sin(angle) * 5, angle, 12, GREEN)
    for index in range(9):
        angle = 0.4 + index * 0.32
        canvas.ellipse(50 + math.cos(angle) * 24, 50 + math.sin(angle) * 24, 1.3, 1.3, main)
    draw_petals(canvas, 50, 49, 3.6, lighten(main, 0.65), 5)
    return canvas


def draw_coffee(random: Random) -> Canvas:
    """A cup with a heart in the milk, seen from above."""
    top, bottom = random.choice(PAPERS)
    canvas = Canvas(mix(top, WOOD, 0.3), mix(bottom, WOOD, 0.55))
    for index in range(7):
        canvas.line([(-2, 8 + index * 14), (102, 10 + index * 14)], darken(WOOD, 0.2), 0.5, 90)
    canvas.ellipse(51, 55, 38, 38, INK, 50)
    cup = lighten(random.choice(ACCENTS), 0.25)
    canvas.ellipse(49, 51, 38, 38, WHITE)
    canvas.ellipse(49, 51, 31, 31, parse_color("ece6dc"))
    canvas.box(74, 45, 92, 57, cup, 6)
    canvas.box(76, 48, 88, 54, WHITE, 3)
    canvas.ellipse(49, 51, 28, 28, cup)
    canvas.ellipse(49, 51, 25, 25, parse_color("6f4128"))
    canvas.ellipse(49, 51, 23.4, 23.4, parse_color("a9683c"))
    foam = parse_color("f7e8d2")
    for scale, y in ((1, 0), (0.66, 1.4), (0.36, 2.6)):
        heart = [(0, 15), (-14, 2), (-13, -9), (-6, -12), (0, -7), (6, -12), (13, -9), (14, 2)]
        color = foam if scale != 0.66 else parse_color("b9783f")
        canvas.shape([(49 + x * scale, 51 + y + dy * scale) for x, dy in heart], color)
    for x, y, angle in ((12, 88, 0.5), (20, 93, 2.2), (88, 14, 1.1)):
        canvas.ellipse(x, y, 3.2, 2.4, darken(WOOD, 0.55))
        canvas.line([(x - 2.4, y), (x, y - 0.6 * angle), (x + 2.4, y)], WOOD, 0.4)
    return canvas


def draw_wine(random: Random) -> Canvas:
    """A bottle and a glass before a window with hills."""
    top, bottom = random.choice(DUSKS)
    canvas = Canvas(lighten(top, 0.2), lighten(bottom, 0.2))
    canvas.ellipse(66, 42, 11, 11, lighten(GOLD, 0.4), 220)
    for level, share in ((54, 0.25), (62, 0.5), (70, 0.75)):
        hill = mix(bottom, darken(top, 0.3), share)
        wave = [(x, level + 5 * math.sin(x / 13 + level)) for x in range(-10, 115, 8)]
        canvas.polygon([*wave, (112, 110), (-10, 110)], hill)
    canvas.box(0, 82, 100, 104, WOOD)
    canvas.box(0, 82, 100, 84, lighten(WOOD, 0.25))
    bottle = parse_color("23402f")
    canvas.box(24, 14, 31, 40, bottle, 1)
    canvas.shape([(24.4, 30), (30.6, 30), (34, 42), (36.5, 50), (18.5, 50), (21, 42)], bottle)
    canvas.box(18, 45, 37, 85, bottle, 2)
    canvas.box(23.6, 12, 31.4, 22, random.choice(ACCENTS), 1)
    canvas.box(18, 56, 37, 74, parse_color("f1e8d6"))
    canvas.box(21, 60, 34, 61.4, GOLD)
    canvas.box(21, 64, 30, 65, parse_color("a59a86"))
    canvas.box(20, 46, 22, 84, WHITE, 1, 60)
    wine = random.choice(parse_colors("8f2540 8f2540 e6c766"))
    canvas.ellipse(68, 84.5, 11, 2, WHITE, 170)
    canvas.line([(68, 64), (68, 84)], WHITE, 1.2, 220)
    bowl = [(56, 30), (80, 30), (82, 46), (77, 58), (68, 65), (59, 58), (54, 46)]
    canvas.shape(bowl, WHITE, 80)
    canvas.shape([(54.6, 46), (81.4, 46), (77, 57.4), (68, 63.8), (59, 57.4)], wine)
    canvas.ellipse(68, 46, 13, 2, lighten(wine, 0.2))
    return canvas


def draw_flowers(random: Random) -> Canvas:
    """A bouquet in a vase."""
    top, bottom = random.choice(PAPERS)
    canvas = Canvas(top, bottom)
    canvas.ellipse(50, 44, 38, 38, lighten(top, 0.55), 190)
    canvas.box(0, 86, 100, 104, darken(bottom, 0.22))
    blossoms = [
        (50 + math.cos(angle) * reach, 38 + math.sin(angle) * reach * 0.8)
        for angle, reach in ((index * 2.4, 4.4 * math.sqrt(index)) for index in range(17))
    ]
    for x, y in blossoms:
        canvas.line([(50, 70), ((50 + x) / 2, (70 + y) / 2 + 2), (x, y)], darken(GREEN, 0.1), 0.9)
    for index in range(11):
        angle = -math.pi + index * math.pi / 10
        draw_leaf(canvas, 50 + math.cos(angle) * 13, 42 + math.sin(angle) * 11, angle, 14, GREEN)
    colors = random.sample(ACCENTS, 3)
    for index, (x, y) in enumerate(reversed(blossoms)):
        color = lighten(colors[index % 3], 0.1 + 0.3 * random.random())
        draw_petals(canvas, x, y, random.uniform(4.4, 6.6), color, random.choice((5, 6, 8)))
    vase = random.choice(ACCENTS)
    canvas.shape(
        [(42, 64), (58, 64), (57, 70), (63, 80), (60, 92), (40, 92), (37, 80), (43, 70)], vase
    )
    canvas.shape(
        [(52, 65), (58, 64), (57, 70), (63, 80), (60, 92), (53, 92), (57, 80)], darken(vase, 0.18)
    )
    return canvas
