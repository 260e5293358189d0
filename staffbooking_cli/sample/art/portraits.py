"""Draws a portrait of a sample person: the same person always looks the same."""

from __future__ import annotations

from random import Random

from attrs import frozen

from staffbooking_cli.sample.art import hair
from staffbooking_cli.sample.art.canvas import (
    Canvas,
    Color,
    darken,
    lighten,
    mirror,
    mix,
    parse_color,
    parse_colors,
)

_BACKGROUNDS = tuple(
    parse_colors(pair)
    for pair in (
        "fde7d3 f7b98c",
        "dff1ea 8fcbb4",
        "e3ecfb 9db9ec",
        "f9e3ea e8a3b8",
        "fdf2cf f0c766",
        "e9e4f7 b5a3e0",
        "d9eef5 86c1d8",
        "eef0e2 b9c48a",
        "f3e6dc cf9f86",
        "dfe6ea 93a9b8",
    )
)
_SKINS = parse_colors("f9dcc6 f3c9a7 e9b48d dba077 c88a5f a96d45 8a5536 6a3f2a")
"""From light to deep."""
_DARK_HAIR = parse_colors("1c1718 2a1f1d 3a2921")
_BROWN_HAIR = parse_colors("4a3022 5f3d28 7a4e30 8c4a2b")
_FAIR_HAIR = parse_colors("b98a4e d2a765 e3c389 b5572f")
_GREY_HAIR = parse_colors("8e8c8d b9b7b6 dcd9d5")
_CLOTHES = parse_colors(
    "22303f 2f5d62 7a3e48 3d4a7a 556b46 b8553a d9a441 4a4a52 8a5a83 1f6f8b e8e3da f4f1ec"
)
_IRISES = parse_colors("3a2a20 4a3526 2f4a5c 4c5a3a")
_WHITE, _INK = parse_color("fbfaf8"), parse_color("2b2326")

_ZOOM = 1.14

_POOL_SKINS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("irish", "nordic", "dutch", "polish", "czech", "german"), (0, 0, 1, 1, 2)),
    **dict.fromkeys(("portuguese", "spanish", "italian", "greek", "turkish"), (1, 1, 2, 2, 3)),
    **dict.fromkeys(("japanese", "korean", "singaporean", "thai"), (0, 1, 1, 2, 3)),
    **dict.fromkeys(("arab", "latin"), (2, 3, 3, 4)),
    **dict.fromkeys(("kenyan", "nigerian"), (6, 6, 7)),
    "south_african": (1, 3, 5, 6, 7),
    "indian": (3, 4, 4, 5),
    "brazilian": (1, 2, 3, 4, 5, 6),
}
_ANY_SKIN = (0, 1, 1, 2, 3, 5, 6)
_COVERED_POOLS = frozenset(("arab", "turkish", "singaporean"))
_FAIR_POOLS = frozenset(("irish", "nordic", "dutch", "polish", "czech", "german", "british"))
_MIXED_POOLS = frozenset(
    ("american", "australian", "canadian", "quebecois", "french", "portuguese")
)


@frozen
class Look:
    """What a portrait shows of a person."""

    name_pool: str
    feminine: bool
    trade: str


@frozen
class _Face:
    """The chosen colors of a person."""

    skin: Color
    shadow: Color
    hair: Color


def draw_portrait(seed: str, look: Look) -> bytes:
    """A portrait as an image file."""
    random = Random(seed)
    top, bottom = random.choice(_BACKGROUNDS)
    canvas = Canvas(top, bottom, _ZOOM)
    canvas.ellipse(50, 50, 38, 38, lighten(top, 0.5), 150)
    face = _pick_face(random, look)
    style = hair.pick_style(
        random, feminine=look.feminine, may_cover=look.name_pool in _COVERED_POOLS
    )
    style.draw_back(canvas, face.hair)
    _draw_clothes(canvas, random, look, face)
    _draw_head(canvas, face)
    _draw_features(canvas, random, look, face)
    if not look.feminine:
        _draw_beard(canvas, random, face)
    style.draw_front(canvas, face.hair)
    _draw_accessories(canvas, random, look)
    return canvas.encode()


def _pick_face(random: Random, look: Look) -> _Face:
    index = random.choice(_POOL_SKINS.get(look.name_pool, _ANY_SKIN))
    skin = mix(_SKINS[index], _SKINS[min(index + 1, len(_SKINS) - 1)], random.random() * 0.5)
    colors: tuple[Color, ...] = _DARK_HAIR
    if index < 3 and look.name_pool in _FAIR_POOLS:
        colors = (*_FAIR_HAIR, *_BROWN_HAIR)
    elif index < 4 and look.name_pool in _MIXED_POOLS:
        colors = (*_BROWN_HAIR, *_BROWN_HAIR, *_DARK_HAIR, *_FAIR_HAIR[:1])
    if random.random() < 0.1:
        colors = _GREY_HAIR
    return _Face(skin, darken(skin, 0.16), random.choice(colors))


# Body -----------------------------------------------------------------------------------

_SHOULDERS = mirror([(50, 76.5), (41, 77.5), (27, 81.5), (15, 88), (9, 98), (7, 112)])


def _draw_neck(canvas: Canvas, face: _Face) -> None:
    canvas.polygon([(43.5, 58), (56.5, 58), (57.2, 78), (50, 84), (42.8, 78)], face.skin)
    canvas.shape([(43.5, 60), (56.5, 60), (57, 68), (50, 73.5), (43, 68)], darken(face.skin, 0.24))


def _draw_clothes(canvas: Canvas, random: Random, look: Look, face: _Face) -> None:
    cloth = random.choice(_CLOTHES)
    kind = random.choice(_OUTFITS.get(look.trade, _ANY_OUTFIT))
    canvas.shape(_SHOULDERS, cloth)
    _draw_neck(canvas, face)
    _OUTFIT_DETAILS[kind](canvas, cloth, face)


def _draw_tee(canvas: Canvas, cloth: Color, face: _Face) -> None:
    canvas.shape([(42, 76), (58, 76), (57, 81), (50, 85.5), (43, 81)], face.skin)
    canvas.line([(41, 76.5), (43, 82), (50, 86.5), (57, 82), (59, 76.5)], darken(cloth, 0.25), 1.6)
    canvas.line([(23, 91), (25, 96), (25, 103)], darken(cloth, 0.25), 0.7)
    canvas.line([(77, 91), (75, 96), (75, 103)], darken(cloth, 0.25), 0.7)


def _draw_turtleneck(canvas: Canvas, cloth: Color, face: _Face) -> None:
    canvas.box(41, 70.5, 59, 84, cloth, 4)
    canvas.box(41, 70.5, 59, 75, lighten(cloth, 0.1), 2.3)
    canvas.line([(42, 82.5), (50, 84.5), (58, 82.5)], darken(cloth, 0.25), 0.8)


def _draw_collar(canvas: Canvas, color: Color) -> None:
    shade = darken(color, 0.14)
    canvas.polygon([(43, 74), (50, 83.5), (44.5, 90), (37.5, 79)], color)
    canvas.polygon([(57, 74), (50, 83.5), (55.5, 90), (62.5, 79)], color)
    canvas.line([(50, 83.5), (44.5, 90), (37.5, 79)], shade, 0.6)
    canvas.line([(50, 83.5), (55.5, 90), (62.5, 79)], shade, 0.6)


def _draw_shirt(canvas: Canvas, cloth: Color, face: _Face) -> None:
    canvas.polygon([(43, 75), (57, 75), (50, 84)], face.skin)
    canvas.line([(50, 84), (50, 103)], darken(cloth, 0.2), 0.7)
    for y in (90, 97):
        canvas.ellipse(51.6, y, 0.8, 0.8, darken(cloth, 0.35))
    _draw_collar(canvas, lighten(cloth, 0.14))


def _draw_blazer(canvas: Canvas, cloth: Color, face: _Face) -> None:
    dark = darken(cloth, 0.3) if sum(cloth) > 560 else cloth
    canvas.shape(_SHOULDERS, dark)
    canvas.polygon([(40, 76), (60, 76), (53, 104), (47, 104)], _WHITE)
    _draw_neck(canvas, face)
    canvas.polygon([(43.5, 76), (56.5, 76), (50, 85)], face.skin)
    _draw_collar(canvas, _WHITE)
    lapel = darken(dark, 0.28)
    canvas.polygon([(40, 75.5), (34.5, 84), (39, 86.5), (36, 89.5), (48, 106), (47.5, 97)], lapel)
    canvas.polygon([(60, 75.5), (65.5, 84), (61, 86.5), (64, 89.5), (52, 106), (52.5, 97)], lapel)


def _draw_tie(canvas: Canvas, cloth: Color, face: _Face) -> None:
    _draw_blazer(canvas, cloth, face)
    tie = mix(cloth, parse_color("b0343c"), 0.6)
    canvas.polygon([(48, 83.5), (52, 83.5), (52.8, 88), (50, 90), (47.2, 88)], darken(tie, 0.2))
    canvas.polygon([(48.4, 88.4), (51.6, 88.4), (53.4, 106), (46.6, 106)], tie)


def _draw_bow_tie(canvas: Canvas, cloth: Color, face: _Face) -> None:
    _draw_shirt(canvas, cloth, face)
    canvas.shape(_SHOULDERS, _WHITE)
    _draw_neck(canvas, face)
    canvas.polygon([(43, 75), (57, 75), (50, 84)], face.skin)
    _draw_collar(canvas, _WHITE)
    vest = darken(cloth, 0.25) if sum(cloth) < 560 else _INK
    canvas.polygon([(36, 79), (29, 81), (25, 106), (50, 106), (50, 98)], vest)
    canvas.polygon([(64, 79), (71, 81), (75, 106), (50, 106), (50, 98)], vest)
    canvas.polygon([(50, 85), (43, 81.3), (43, 89), (50, 85.6)], _INK)
    canvas.polygon([(50, 85), (57, 81.3), (57, 89), (50, 85.6)], _INK)
    canvas.ellipse(50, 85.2, 1.7, 1.9, lighten(_INK, 0.16))


def _draw_apron(canvas: Canvas, cloth: Color, face: _Face) -> None:
    shirt = lighten(cloth, 0.75)
    canvas.shape(_SHOULDERS, shirt)
    _draw_neck(canvas, face)
    canvas.polygon([(43, 75), (57, 75), (50, 84)], face.skin)
    _draw_collar(canvas, lighten(shirt, 0.4))
    apron = darken(cloth, 0.1) if sum(cloth) < 560 else parse_color("3f4f46")
    canvas.box(33, 88.5, 67, 110, apron, 2)
    canvas.line([(35, 90), (37.5, 80)], apron, 2.4)
    canvas.line([(65, 90), (62.5, 80)], apron, 2.4)
    canvas.line([(35, 90.9), (65, 90.9)], lighten(apron, 0.25), 0.6)


def _draw_chef(canvas: Canvas, cloth: Color, face: _Face) -> None:
    canvas.shape(_SHOULDERS, _WHITE)
    _draw_neck(canvas, face)
    canvas.polygon([(42, 72), (50, 80), (58, 72), (61, 79), (50, 86), (39, 79)], _WHITE)
    shade = parse_color("cfcac4")
    canvas.line([(42, 72), (50, 80.5), (58, 72)], shade, 0.7)
    canvas.line([(50, 80.5), (44, 92), (44, 106)], shade, 0.7)
    for y in (89, 97):
        canvas.ellipse(48.5, y, 1.1, 1.1, _INK)
        canvas.ellipse(58, y, 1.1, 1.1, _INK)


def _draw_hoodie(canvas: Canvas, cloth: Color, face: _Face) -> None:
    canvas.shape([(36, 80), (40, 73), (50, 71), (60, 73), (64, 80), (50, 92)], darken(cloth, 0.22))
    _draw_neck(canvas, face)
    canvas.line([(40, 74.5), (42, 83), (50, 89.5), (58, 83), (60, 74.5)], lighten(cloth, 0.1), 3)
    for x in (46, 54):
        canvas.line([(x, 88), (x - 0.5, 97)], lighten(cloth, 0.6), 0.9)


_OUTFIT_DETAILS = {
    "tee": _draw_tee,
    "turtleneck": _draw_turtleneck,
    "shirt": _draw_shirt,
    "blazer": _draw_blazer,
    "tie": _draw_tie,
    "bow_tie": _draw_bow_tie,
    "apron": _draw_apron,
    "chef": _draw_chef,
    "hoodie": _draw_hoodie,
}
_ANY_OUTFIT = ("tee", "shirt", "turtleneck", "blazer")
_OUTFITS = {
    "Bartender": ("bow_tie", "apron", "shirt"),
    "Waiter": ("bow_tie", "shirt", "apron"),
    "Host": ("blazer", "tie", "shirt"),
    "Security": ("tie", "turtleneck"),
    "DJ": ("hoodie", "tee"),
    "Chef": ("chef",),
    "Event manager": ("blazer", "turtleneck"),
    "Barista": ("apron", "tee"),
    "Sommelier": ("apron", "blazer", "bow_tie"),
    "AV technician": ("hoodie", "tee", "shirt"),
    "Interpreter": ("blazer", "shirt", "turtleneck"),
}


# Head -----------------------------------------------------------------------------------

_HEAD = mirror([(50, 24), (58, 25.2), (65, 32), (66.8, 43), (65, 53.5), (59.5, 62.5), (54, 66.4)])
_RIGHT_HALF = [(50, 23.5), (58, 25.2), (65, 32), (66.8, 43), (65, 53.5), (59.5, 62.5), (54, 66.4)]


def _draw_head(canvas: Canvas, face: _Face) -> None:
    for x in (33.6, 66.4):
        canvas.ellipse(x, 47, 3.2, 4.8, face.skin)
        canvas.ellipse(x, 47.2, 1.6, 2.7, face.shadow)
    canvas.shape(_HEAD, face.skin)
    canvas.shape([*_RIGHT_HALF, (57, 60), (61.5, 50), (62, 38), (58, 29)], face.shadow, 90)


def _draw_features(canvas: Canvas, random: Random, look: Look, face: _Face) -> None:
    brow = darken(face.hair, 0.2) if sum(face.hair) < 520 else darken(face.hair, 0.35)
    lift, thickness = random.uniform(-0.5, 0.6), 1.0 if look.feminine else 1.5
    iris = random.choice(_IRISES if sum(face.skin) > 560 else _IRISES[:2])
    for side in (-1, 1):
        _draw_eye(canvas, 50 + side * 7.6, side, iris, look)
        outer, inner = 50 + side * 12, 50 + side * 4.2
        middle = 50 + side * 8.6
        canvas.line([(inner, 41.2), (middle, 39.6 - lift), (outer, 41.4)], brow, thickness)
        blush = mix(face.skin, parse_color("e0584f"), 0.35)
        canvas.ellipse(50 + side * 10.4, 53, 3.4, 2.4, blush, 80)
    canvas.line([(50.3, 46.5), (51.6, 51.2), (50.6, 52.6), (48.6, 52.5)], face.shadow, 1.1)
    _draw_mouth(canvas, random, look, face)


def _draw_eye(canvas: Canvas, x: float, side: int, iris: Color, look: Look) -> None:
    canvas.shape([(x - 3.3, 46.2), (x, 44), (x + 3.3, 46.2), (x, 48)], _WHITE)
    canvas.ellipse(x, 46, 1.75, 1.9, iris)
    canvas.ellipse(x, 46, 0.9, 1, _INK)
    canvas.ellipse(x + 0.7, 45.3, 0.5, 0.5, _WHITE)
    canvas.line([(x - 3.4, 46.2), (x, 43.9), (x + 3.4, 46.2)], _INK, 0.8)
    if look.feminine:
        canvas.line([(x + side * 3.2, 46), (x + side * 4.6, 44.6)], _INK, 0.8)


def _draw_mouth(canvas: Canvas, random: Random, look: Look, face: _Face) -> None:
    lips = mix(face.skin, parse_color("b4383f"), 0.62 if look.feminine else 0.4)
    if sum(face.skin) < 300:  # Deep skin: lips stand out by light.
        lips = mix(face.skin, parse_color("e08a80"), 0.5)
    width = random.uniform(4.6, 6)
    if random.random() < 0.55:
        canvas.shape(
            [
                (50 - width, 56.6),
                (50, 57.3),
                (50 + width, 56.6),
                (50 + 3.2, 60),
                (50, 61),
                (46.8, 60),
            ],
            darken(lips, 0.35),
        )
        canvas.shape(
            [
                (50 - width + 1, 57),
                (50, 57.6),
                (50 + width - 1, 57),
                (53, 58.8),
                (50, 59.2),
                (47, 58.8),
            ],
            _WHITE,
        )
    else:
        canvas.line([(50 - width, 57.2), (50, 59.6), (50 + width, 57.2)], darken(lips, 0.1), 1.4)


_STUBBLE = mirror(
    [
        (50, 66.6),
        (46, 66.4),
        (40.5, 62.5),
        (35.4, 54),
        (34.8, 50),
        (38, 54.6),
        (44, 55.2),
        (50, 54.8),
    ]
)
_FULL_BEARD = mirror(
    [
        (50, 69),
        (43, 67.6),
        (36.5, 60),
        (34.2, 49),
        (35.8, 49),
        (39, 54.8),
        (44, 55.2),
        (50, 54.8),
    ]
)


def _draw_beard(canvas: Canvas, random: Random, face: _Face) -> None:
    kind = random.choice(("none", "none", "none", "stubble", "stubble", "full", "moustache"))
    color = darken(face.hair, 0.1)
    if kind == "stubble":
        canvas.shape(_STUBBLE, color, 46)
    elif kind == "full":
        canvas.shape(_FULL_BEARD, color)
        lips = mix(face.skin, parse_color("b4383f"), 0.45)
        canvas.shape([(45, 58), (50, 57.4), (55, 58), (52.6, 60.6), (50, 61.2), (47.4, 60.6)], lips)
    elif kind == "moustache":
        canvas.shape(
            [
                (50, 54.6),
                (44, 56.8),
                (43, 58),
                (47, 57.6),
                (50, 57),
                (53, 57.6),
                (57, 58),
                (56, 56.8),
            ],
            color,
        )


def _draw_accessories(canvas: Canvas, random: Random, look: Look) -> None:
    if random.random() < 0.24:
        rim = random.choice((_INK, parse_color("6b4a2f"), parse_color("8c8f98")))
        for x in (42.4, 57.6):
            canvas.ellipse(x, 46.2, 5.6, 5.2, _WHITE, 46)
            canvas.ring(x, 46.2, 5.8, 5.4, rim, 0.9)
        canvas.line([(48.2, 45.4), (50, 44.7), (51.8, 45.4)], rim, 0.9)
        canvas.line([(36.7, 45.2), (33.4, 44.4)], rim, 0.9)
        canvas.line([(63.3, 45.2), (66.6, 44.4)], rim, 0.9)
    if look.feminine and random.random() < 0.5:
        gold = parse_color("e2b64c")
        for x in (33, 67):
            canvas.ellipse(x, 53, 1.2, 1.2, gold)
