"""Curves of a run as an SVG picture, which any browser shows. Knows points and names; nothing of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

Point = tuple[float, float]
WIDTH, HEIGHT, LEFT, RIGHT, ABOVE, BELOW = 720, 260, 60, 150, 30, 40
COLOURS = ("#1f6fb4", "#d1495b", "#3a8f5c", "#8a5fb0", "#b07a1f", "#4f4f4f")
TICKS = 5


def curves_svg(panels: Mapping[str, Mapping[str, Sequence[Point]]]) -> str:
    """Draw panels below each other.

    Args:
        panels: by title, the curves of each by name, as (step, value) points in the order of steps; none are left out,
            so leave out what is not finite.
    """
    shown = {title: {n: points for n, points in curves.items() if points} for title, curves in panels.items()}
    shown = {title: curves for title, curves in shown.items() if curves}
    body = [
        line for place, (title, curves) in enumerate(shown.items()) for line in _panel(title, curves, place * HEIGHT)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT * max(len(shown), 1)}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>"]) + "\n"


def _panel(title: str, curves: Mapping[str, Sequence[Point]], top: int) -> list[str]:
    xs = [x for points in curves.values() for x, _ in points]
    ys = [y for points in curves.values() for _, y in points]
    right, bottom = WIDTH - RIGHT, top + HEIGHT - BELOW

    def across(x: float) -> float:
        return LEFT + (right - LEFT) * (x - min(xs)) / ((max(xs) - min(xs)) or 1)

    def down(y: float) -> float:
        return bottom - (bottom - top - ABOVE) * (y - min(ys)) / ((max(ys) - min(ys)) or 1)

    lines = [f'<text x="{LEFT}" y="{top + 18}" font-weight="bold">{escape(title)}</text>']
    for n in range(TICKS):
        x, y = (low + (high - low) * n / (TICKS - 1) for low, high in ((min(xs), max(xs)), (min(ys), max(ys))))
        lines += [
            f'<line x1="{LEFT}" x2="{right}" y1="{down(y):.1f}" y2="{down(y):.1f}" stroke="#dddddd"/>',
            f'<text x="{LEFT - 6}" y="{down(y) + 4:.1f}" text-anchor="end">{y:.3g}</text>',
            f'<text x="{across(x):.1f}" y="{bottom + 18}" text-anchor="middle">{x:.0f}</text>',
        ]
    lines.append(f'<text x="{(LEFT + right) / 2}" y="{bottom + 34}" text-anchor="middle">step</text>')
    for n, (name, points) in enumerate(curves.items()):
        colour = COLOURS[n % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        dots = [f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
        lines += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            *(dots if len(points) < 60 else ()),
            f'<text x="{right + 12}" y="{top + ABOVE + 16 * n + 8}" fill="{colour}">{escape(name)}</text>',
        ]
    return lines
