"""Palettes and motifs of the sample's pictures."""

from __future__ import annotations

import math

from staffbooking_cli.sample.art.canvas import (
    Canvas,
    Color,
    darken,
    lighten,
    parse_color,
    parse_colors,
)

WHITE, INK = parse_color("fbf8f3"), parse_color("22202a")
GOLD, WOOD, GREEN = parse_color("e7b955"), parse_color("a8724a"), parse_color("5f8a5b")
ACCENTS = parse_colors("d9654f e0a13c 5a9e8f 5b7fc4 a8679f c8506f")
DUSKS = tuple(
    parse_colors(pair)
    for pair in ("2b2a55 e88e6c", "1f3a5f f0b27a", "3d2c5c d9738f", "23395b 8fb8c9")
)
DAYS = tuple(parse_colors(pair) for pair in ("cfe3f2 f8e1cf", "d9e6e0 f7ecd2", "e2dcf0 f8d9d0"))
PAPERS = tuple(
    parse_colors(pair)
    for pair in ("f3ebe0 e2d2bd", "e6eee9 c8dad0", "ecebf4 cdcbe2", "f6e7e1 e5c5b8")
)


def draw_glow(canvas: Canvas, x: float, y: float, radius: float, color: Color) -> None:
    """A soft light."""
    for share, alpha in ((1, 26), (0.7, 36), (0.42, 70)):
        canvas.ellipse(x, y, radius * share, radius * share, color, alpha)


def draw_string_lights(canvas: Canvas, top: float, sag: float) -> None:
    """Two chains of bulbs from edge to edge."""
    for level in (top, top + 8):
        chain = [(x, level + sag * (1 - ((x - 50) / 50) ** 2)) for x in range(-5, 110, 5)]
        canvas.line(chain, INK, 0.4)
        for x, y in chain[::2]:
            draw_glow(canvas, x, y + 1.6, 3.6, GOLD)
            canvas.ellipse(x, y + 1.6, 1.1, 1.3, lighten(GOLD, 0.55))


def draw_petals(
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
    canvas.ellipse(x, y, radius * 0.36, radius * 0.36, GOLD)


def draw_leaf(
    canvas: Canvas, x: float, y: float, angle: float, length: float, color: Color
) -> None:
    along, across = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))

    def at(forward: float, aside: float) -> tuple[float, float]:
        return (
            x + along[0] * forward + across[0] * aside,
            y + along[1] * forward + across[1] * aside,
        )

    half = length / 2
    canvas.shape([at(0, 0), at(half, length * 0.2), at(length, 0), at(half, -length * 0.2)], color)
    canvas.line([at(0, 0), at(length * 0.9, 0)], darken(color, 0.2), 0.35)
