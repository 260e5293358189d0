"""Draws flat pictures: smooth shapes on a square of 100 by 100 units."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TypeAlias

from PIL import Image, ImageDraw

Color: TypeAlias = tuple[int, int, int]
Points: TypeAlias = Sequence[tuple[float, float]]

SIDE_PIXELS = 512
_SUPERSAMPLING = 2
_CURVE_STEPS = 8
"""Straight pieces between two points of a curve."""
_OPAQUE = 255


def parse_color(text: str) -> Color:
    """The color of six hexadecimal digits."""
    red, green, blue = bytes.fromhex(text)
    return red, green, blue


def parse_colors(text: str) -> tuple[Color, ...]:
    return tuple(map(parse_color, text.split()))


def mix(first: Color, second: Color, share: float) -> Color:
    """A color between two; `share` is the second one's, 0 to 1."""
    red, green, blue = (
        round(one + (other - one) * share) for one, other in zip(first, second, strict=True)
    )
    return red, green, blue


def darken(color: Color, share: float) -> Color:
    """A darker color that stays warm."""
    return mix(color, (40, 14, 24), share)


def lighten(color: Color, share: float) -> Color:
    return mix(color, (255, 255, 255), share)


def mirror(points: Points) -> Points:
    """The points and their mirror images, right to left, around the vertical axis at 50: half a
    symmetrical shape makes the whole."""
    return [*points, *((100 - x, y) for x, y in reversed(points))]


class Canvas:
    """A square picture. Shapes are drawn larger than stored, so that their edges are smooth."""

    def __init__(self, top: Color, bottom: Color, zoom: float = 1) -> None:
        """A vertical gradient as the background; `zoom` enlarges shapes around the middle."""
        side = SIDE_PIXELS * _SUPERSAMPLING
        column = Image.new("RGB", (1, 64))
        column.putdata([mix(top, bottom, y / 63) for y in range(64)])
        smooth = column.resize((1, side), Image.Resampling.BILINEAR)
        self._image = smooth.resize((side, side), Image.Resampling.NEAREST)
        self._opaque_draw = ImageDraw.Draw(self._image)
        self._blending_draw = ImageDraw.Draw(self._image, "RGBA")
        self._scale = zoom * side / 100
        self._shift = (1 - zoom) * side / 2

    def shape(self, points: Points, color: Color, alpha: int = _OPAQUE) -> None:
        """A closed smooth curve through the points, filled."""
        self._draw(alpha).polygon(self._scaled(_curve(points, closed=True)), fill=(*color, alpha))

    def polygon(self, points: Points, color: Color, alpha: int = _OPAQUE) -> None:
        """Straight edges."""
        self._draw(alpha).polygon(self._scaled(points), fill=(*color, alpha))

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, color: Color, alpha: int = _OPAQUE
    ) -> None:
        """An upright ellipse by its center and radii."""
        box = self._scaled([(x - rx, y - ry), (x + rx, y + ry)])
        self._draw(alpha).ellipse(box, fill=(*color, alpha))

    def ring(self, x: float, y: float, rx: float, ry: float, color: Color, width: float) -> None:
        """The outline of an ellipse."""
        box = self._scaled([(x - rx, y - ry), (x + rx, y + ry)])
        self._opaque_draw.ellipse(box, outline=color, width=round(width * self._scale))

    def box(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        color: Color,
        radius: float = 0,
        alpha: int = _OPAQUE,
    ) -> None:
        """A rectangle with rounded corners."""
        corners = self._scaled([(left, top), (right, bottom)])
        self._draw(alpha).rounded_rectangle(corners, radius * self._scale, fill=(*color, alpha))

    def frame(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        color: Color,
        radius: float,
        width: float,
    ) -> None:
        """The outline of a rectangle with rounded corners."""
        corners = self._scaled([(left, top), (right, bottom)])
        self._opaque_draw.rounded_rectangle(
            corners, radius * self._scale, outline=color, width=round(width * self._scale)
        )

    def line(self, points: Points, color: Color, width: float, alpha: int = _OPAQUE) -> None:
        """An open smooth curve with round ends."""
        path = self._scaled(_curve(points, closed=False))
        self._draw(alpha).line(
            path, fill=(*color, alpha), width=round(width * self._scale), joint="curve"
        )
        if alpha == _OPAQUE:
            radius = width * self._scale / 2
            for x, y in (path[0], path[-1]):
                self._opaque_draw.ellipse(
                    (x - radius, y - radius, x + radius, y + radius), fill=color
                )

    def encode(self) -> bytes:
        """The picture as a file of high quality: the upload encodes it again. A JPEG, since both
        together take a third of the time that they take for a WebP."""
        made = BytesIO()
        self._image.reduce(_SUPERSAMPLING).save(made, "JPEG", quality=92, subsampling=0)
        return made.getvalue()

    def _draw(self, alpha: int) -> ImageDraw.ImageDraw:
        """What draws in a color: an opaque one needs no look at what is below."""
        return self._opaque_draw if alpha == _OPAQUE else self._blending_draw

    def _scaled(self, points: Points) -> list[tuple[float, float]]:
        return [(x * self._scale + self._shift, y * self._scale + self._shift) for x, y in points]


def _curve(points: Points, *, closed: bool) -> Points:
    """A Catmull-Rom spline through the points."""
    count = len(points)
    if count < 3:
        return points

    def at(index: int) -> tuple[float, float]:
        return points[index % count] if closed else points[min(max(index, 0), count - 1)]

    path = []
    for index in range(count if closed else count - 1):
        (x0, y0), (x1, y1) = at(index - 1), at(index)
        (x2, y2), (x3, y3) = at(index + 1), at(index + 2)
        path += [
            (a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3)
            for a, b, c, d in _WEIGHTS
        ]
    return path if closed else [*path, points[-1]]


def _weights(t: float) -> tuple[float, float, float, float]:
    """The weights of four knots of a Catmull-Rom spline, between the second and the third."""
    return (
        (-t + 2 * t**2 - t**3) / 2,
        (2 - 5 * t**2 + 3 * t**3) / 2,
        (t + 4 * t**2 - 3 * t**3) / 2,
        (t**3 - t**2) / 2,
    )


_WEIGHTS = tuple(_weights(step / _CURVE_STEPS) for step in range(_CURVE_STEPS))
