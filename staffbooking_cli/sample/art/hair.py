"""Hair styles of the sample portraits: a part behind the head, and a part over it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import frozen

from staffbooking_cli.sample.art.canvas import Canvas, Color, Points, darken, lighten, mirror

Draw = Callable[[Canvas, Color], None]


def _nothing(canvas: Canvas, color: Color) -> None:
    pass


@frozen
class HairStyle:
    """The two layers of a hair style."""

    draw_back: Draw
    draw_front: Draw


# Long and medium ------------------------------------------------------------------------

_CROWN = mirror(
    [
        (50, 18.5),
        (40, 20),
        (33, 27),
        (30.5, 38),
        (31, 49),
        (34, 49.5),
        (36.5, 39),
        (43, 33.5),
        (50, 31.5),
    ]
)
_CURTAIN = [
    (50, 31),
    (44, 34.5),
    (38.5, 41),
    (36, 50),
    (33, 51),
    (30, 42),
    (32, 28),
    (40, 19.5),
    (50, 17.8),
    (60, 19.5),
    (68, 28),
    (70, 42),
    (67, 51),
    (64, 50),
    (61.5, 41),
    (56, 34.5),
]
_SIDE_SWEEP = [
    (42, 25),
    (49, 31),
    (58, 34.5),
    (64.5, 41),
    (66.5, 50),
    (69, 50),
    (70, 38),
    (66, 25),
    (57, 18.5),
    (46, 17.8),
    (36, 22.5),
    (30.5, 34),
    (31, 50),
    (33.8, 50),
    (35.5, 40),
    (38.5, 32),
]
_FRINGE = [
    (36, 41.5),
    (43, 39.5),
    (50, 39),
    (57, 39.5),
    (64, 41.5),
    (65.5, 50),
    (69, 50),
    (70, 36),
    (64, 23),
    (50, 17.6),
    (36, 23),
    (30, 36),
    (31, 50),
    (34.5, 50),
]


def _draw_long_back(canvas: Canvas, color: Color) -> None:
    dark = darken(color, 0.22)
    canvas.shape(
        mirror(
            [
                (50, 18),
                (38, 20),
                (29, 31),
                (27.5, 48),
                (27, 66),
                (24, 84),
                (31, 91),
                (42, 88),
                (50, 80),
            ]
        ),
        dark,
    )


def _draw_wavy_back(canvas: Canvas, color: Color) -> None:
    dark = darken(color, 0.22)
    half = [
        (50, 18),
        (37, 19.5),
        (28, 29),
        (27, 40),
        (23.5, 48),
        (26, 57),
        (22, 65),
        (25, 74),
        (21.5, 82),
        (29, 88),
        (38, 86),
        (50, 80),
    ]
    canvas.shape(mirror(half), dark)


def _draw_bob_back(canvas: Canvas, color: Color) -> None:
    canvas.shape(
        mirror(
            [(50, 18), (37, 20), (28.5, 31), (27.5, 48), (27, 61), (31, 68), (40, 67), (50, 64)]
        ),
        darken(color, 0.22),
    )


def _draw_bun_back(canvas: Canvas, color: Color) -> None:
    canvas.ellipse(50, 15.5, 9.5, 8.5, color)
    canvas.ellipse(50, 14.5, 5.4, 4, lighten(color, 0.12))


def _draw_ponytail_back(canvas: Canvas, color: Color) -> None:
    canvas.shape(
        [(60, 22), (72, 24), (79, 36), (78, 54), (81, 68), (73, 73), (68, 60), (66, 42)],
        darken(color, 0.16),
    )


def _draw_afro_back(canvas: Canvas, color: Color) -> None:
    for x, y, radius in (
        (50, 25, 18),
        (36, 30, 14),
        (64, 30, 14),
        (30, 42, 12),
        (70, 42, 12),
        (33, 53, 9),
        (67, 53, 9),
    ):
        canvas.ellipse(x, y, radius, radius, color)


def _draw_afro_front(canvas: Canvas, color: Color) -> None:
    for x, y, radius in (
        (38, 30, 6),
        (44, 27, 6.5),
        (50, 26, 7),
        (56, 27, 6.5),
        (62, 30, 6),
        (34.5, 37, 4.5),
        (65.5, 37, 4.5),
    ):
        canvas.ellipse(x, y, radius, radius, color)


def _draw_curls_back(canvas: Canvas, color: Color) -> None:
    dark = darken(color, 0.2)
    for x, y, radius in (
        (33, 34, 9),
        (30, 45, 8.5),
        (28, 56, 8.5),
        (28, 67, 8),
        (33, 75, 7),
        (38, 26, 9),
    ):
        canvas.ellipse(x, y, radius, radius, dark)
        canvas.ellipse(100 - x, y, radius, radius, dark)


def _draw_curls_front(canvas: Canvas, color: Color) -> None:
    canvas.shape(_CROWN, color)
    for x, y, radius in ((50, 22, 8), (41, 24, 7.5), (35, 31, 6.5), (31.5, 40, 5.5), (30.5, 49, 5)):
        canvas.ellipse(x, y, radius, radius, color)
        canvas.ellipse(100 - x, y, radius, radius, color)
    for left, top in ((44, 20.5), (54, 19.5), (37, 29), (64, 29)):
        canvas.line(
            [(left - 2.5, top + 1.5), (left, top - 0.6), (left + 2.5, top + 1.2)],
            lighten(color, 0.16),
            0.8,
        )


_SHINE = [(35.5, 33), (38, 27), (43, 23.2), (50, 21.6), (44.5, 24.8), (40, 28.6), (37.6, 33)]


def _with_shine(front: Points) -> Draw:
    """The front shape with a strand of light."""

    def draw(canvas: Canvas, color: Color) -> None:
        canvas.shape(front, color)
        canvas.shape(_SHINE, lighten(color, 0.3), 70)

    return draw


def _draw_headscarf_back(canvas: Canvas, color: Color) -> None:
    canvas.shape(
        mirror([(50, 16), (37, 18.5), (29, 30), (27.5, 48), (29, 64), (32, 80), (50, 90)]), _SCARF
    )


def _draw_headscarf_front(canvas: Canvas, color: Color) -> None:
    canvas.shape(
        mirror(
            [
                (50, 16.5),
                (37, 19),
                (29.5, 31),
                (28.5, 48),
                (31, 62),
                (37.5, 61),
                (34.8, 49),
                (36.5, 38),
                (42, 31.5),
                (50, 29.5),
            ]
        ),
        _SCARF,
    )
    canvas.shape(
        [
            (31, 58),
            (38, 61.5),
            (50, 68.5),
            (62, 61.5),
            (69, 58),
            (68, 74),
            (57, 84),
            (44, 83),
            (33, 75),
        ],
        _SCARF,
    )
    for line in (
        [(33, 66), (45, 74), (60, 72)],
        [(36, 75), (48, 80), (62, 77)],
        [(33, 30), (40, 23), (50, 20.5)],
    ):
        canvas.line(line, darken(_SCARF, 0.18), 0.8)


_SCARF: Color = (47, 109, 120)

# Short ----------------------------------------------------------------------------------

_CROP = mirror(
    [
        (50, 19.5),
        (40, 20.5),
        (33.5, 27),
        (32, 37),
        (33, 45.5),
        (35, 45.5),
        (36, 37.5),
        (40, 32),
        (50, 31),
    ]
)
_SIDE_PART = [
    (38, 31.5),
    (45, 33.8),
    (55, 32),
    (62.5, 33),
    (64.6, 38),
    (65.2, 46),
    (67.2, 46),
    (68.2, 35),
    (66, 25),
    (58, 18),
    (46, 16.5),
    (37, 19.5),
    (32.4, 27),
    (32, 37),
    (33, 46),
    (35, 46),
    (35.6, 38),
]
_QUIFF = [
    (36, 36),
    (39, 30.5),
    (46, 31.5),
    (56, 31),
    (62, 32.5),
    (64.4, 38),
    (65, 46),
    (67, 46),
    (68, 35),
    (67.5, 25),
    (63, 17.5),
    (53, 13.4),
    (43, 16),
    (36.5, 20),
    (32.4, 28),
    (32, 37),
    (33, 46),
    (35, 46),
]
_SLICK = mirror(
    [
        (50, 18),
        (41, 18.8),
        (34.5, 24),
        (32, 34),
        (33, 46),
        (34.8, 46),
        (36, 36),
        (40, 28.5),
        (50, 26.5),
    ]
)


def _draw_buzz(canvas: Canvas, color: Color) -> None:
    canvas.shape(
        mirror(
            [
                (50, 22.5),
                (42, 23.4),
                (35, 29),
                (33.2, 38),
                (33.6, 45),
                (35, 45),
                (36, 38),
                (41, 32.5),
                (50, 31.5),
            ]
        ),
        color,
        190,
    )


def _draw_fade(canvas: Canvas, color: Color) -> None:
    canvas.shape(
        mirror(
            [(50, 21), (40, 22.5), (33.5, 30), (33, 45.5), (35, 45.5), (36, 37), (42, 32), (50, 31)]
        ),
        color,
        150,
    )
    canvas.shape(
        [
            (35.4, 31),
            (36, 24),
            (41, 18.6),
            (50, 16.6),
            (60, 18),
            (65, 23.5),
            (64.8, 31.5),
            (58, 31),
            (50, 32.4),
            (42, 31.6),
        ],
        color,
    )


def _draw_curly_top(canvas: Canvas, color: Color) -> None:
    canvas.shape(_CROP, color)
    for x, y, radius in (
        (50, 19, 7),
        (42, 21, 6.8),
        (36, 27, 5.5),
        (46, 27, 5.5),
        (33.6, 34, 3.6),
        (40, 29, 4.5),
    ):
        canvas.ellipse(x, y, radius, radius, color)
        canvas.ellipse(100 - x, y, radius, radius, color)


_LONG_STYLES = (
    HairStyle(_draw_long_back, _with_shine(_CURTAIN)),
    HairStyle(_draw_long_back, _with_shine(_SIDE_SWEEP)),
    HairStyle(_draw_wavy_back, _with_shine(_CURTAIN)),
    HairStyle(_draw_wavy_back, _with_shine(_SIDE_SWEEP)),
    HairStyle(_draw_bob_back, _with_shine(_FRINGE)),
    HairStyle(_draw_bob_back, _with_shine(_SIDE_SWEEP)),
    HairStyle(_draw_bun_back, _with_shine(_CROWN)),
    HairStyle(_draw_ponytail_back, _with_shine(_SIDE_SWEEP)),
    HairStyle(_draw_curls_back, _draw_curls_front),
    HairStyle(_draw_afro_back, _draw_afro_front),
)
_HEADSCARF = HairStyle(_draw_headscarf_back, _draw_headscarf_front)
_SHORT_STYLES = (
    HairStyle(_nothing, _with_shine(_CROP)),
    HairStyle(_nothing, _with_shine(_SIDE_PART)),
    HairStyle(_nothing, _with_shine(_QUIFF)),
    HairStyle(_nothing, _with_shine(_SLICK)),
    HairStyle(_nothing, _draw_buzz),
    HairStyle(_nothing, _draw_fade),
    HairStyle(_nothing, _draw_curly_top),
    HairStyle(_nothing, _nothing),
)


def pick_style(random: Random, *, feminine: bool, may_cover: bool) -> HairStyle:
    """A style by chance."""
    if feminine and may_cover and random.random() < 0.3:
        return _HEADSCARF
    return random.choice(_LONG_STYLES if feminine else _SHORT_STYLES)
