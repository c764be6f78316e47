"""The two panels of the roofline and their roofs: lines of what the device was seen to do, with their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from graphbench.analysis.rates import RatePoint, Roof
from graphbench.report.html.figures.drawing import Trace, axis, colour, duration, escaped, hover
from graphbench.units import format_rate, format_traffic

NEAR: Final = 1.4
"""Roofs that are not further apart than this share a label: two would lie on each other."""
_UNITS: Final = {"memory": "B/s", "compute": "FLOP/s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of the two: `flops` says which. `domain` is the part of the width that it takes."""

    flops: bool
    number: str
    domain: tuple[float, float]
    told: str

    @property
    def axes(self) -> dict[str, str]:
        """The axes of its traces."""
        return {"xaxis": f"x{self.number}", "yaxis": f"y{self.number}"}

    def wide(self) -> Panel:
        """The same alone."""
        return replace(self, domain=(0.0, 1.0))

    def x(self, point: RatePoint) -> float | None:
        """FLOP per byte, or bytes of one call."""
        return point.cost.intensity if self.flops else point.cost.moved_bytes

    def y(self, point: RatePoint) -> float | None:
        """FLOP per second, or bytes per second."""
        return point.flops_per_s if self.flops else point.bytes_per_s

    def layout(self, points: Sequence[RatePoint]) -> dict[str, Any]:
        """Its two axes, in powers of ten."""
        x_title = "FLOP per byte moved" if self.flops else "bytes moved by one call"
        y_title = "FLOP/s" if self.flops else "bytes moved per second"
        powers = {"type": "log", "dtick": 1, "exponentformat": "SI", "tickformat": "~s"}
        x_title += f" ({'rows with FLOPs' if self.flops else 'rows without FLOPs'})"
        number = self.number
        return {
            f"xaxis{number}": axis(x_title, **powers, domain=list(self.domain), anchor=f"y{number}"),
            f"yaxis{number}": axis(y_title, **powers, anchor=f"x{number}"),
        }


LEFT: Final = Panel(
    flops=True, number="", domain=(0.0, 0.48), told="Left, rows with FLOPs against arithmetic and bandwidth"
)
RIGHT: Final = Panel(flops=False, number="2", domain=(0.57, 1.0), told="Right, rows without FLOPs against bandwidth")


def roof_traces(
    panel: Panel, points: Sequence[RatePoint], roofs: Sequence[Roof], launches: Mapping[str, float | None]
) -> list[Trace]:
    """Lines of a panel, and a label for each, those that lie close together as one.

    Args:
        panel: the panel.
        points: what is drawn in it.
        roofs: of all devices.
        launches: the shortest time of a kernel by device, in nanoseconds; `None` where it was not measured.
    """
    xs = [x for x in map(panel.x, points) if x]
    ys = [y for y in map(panel.y, points) if y]
    devices = dict.fromkeys(roof.device for roof in roofs)
    found: list[Trace] = []
    for device in devices:
        mine = [roof for roof in roofs if roof.device == device]
        prefix = f"{device}: " if len(devices) > 1 else ""
        draw = _arithmetic if panel.flops else _bandwidth
        found += draw(panel, xs, ys, mine, launches.get(device), prefix)
    return found


def _arithmetic(
    panel: Panel, xs: Sequence[float], ys: Sequence[float], roofs: Sequence[Roof], launch_ns: float | None, prefix: str
) -> list[Trace]:
    """Slanted lines of bandwidths up to the highest flat line of an arithmetic."""
    memory = [roof for roof in roofs if roof.kind == "memory"]
    compute = [roof for roof in roofs if roof.kind == "compute"]
    top = max([*ys, *(roof.rate for roof in compute)])
    fastest = max((roof.rate for roof in memory), default=None)
    left = min(min(xs), top / fastest / 2 if fastest else min(xs)) / 2
    ridges = [roof.rate / min(entry.rate for entry in memory) for roof in compute] if memory else []
    right = max([*xs, *ridges]) * 3
    found: list[Trace] = []
    for group in _near(memory):
        for roof in group:
            end = min(right, top / roof.rate)
            found.append(_line(panel, roof, [left, end], [left * roof.rate, end * roof.rate]))
        lowest = min(roof.rate for roof in group)
        found.append(_label(panel, _text(group, prefix), left, left * lowest, "bottom right"))
    for group in _near(compute):
        for roof in group:
            start = roof.rate / fastest if fastest else left
            found.append(_line(panel, roof, [start, right], [roof.rate, roof.rate]))
        found.append(_label(panel, _text(group, prefix), right, max(roof.rate for roof in group), "top left"))
    return found


def _bandwidth(
    panel: Panel, xs: Sequence[float], ys: Sequence[float], roofs: Sequence[Roof], launch_ns: float | None, prefix: str
) -> list[Trace]:
    """Flat lines of bandwidths, as far as a cache reaches; and how fast the shortest kernel moves so much."""
    memory = [roof for roof in roofs if roof.kind == "memory"]
    left, right = min(xs) / 2, max(xs) * 2
    found: list[Trace] = []
    for group in _near(memory):
        for roof in group:
            end = min(right, roof.within_bytes) if roof.within_bytes is not None else right
            found.append(_line(panel, roof, [left, max(left, end)], [roof.rate, roof.rate]))
        highest = max(roof.rate for roof in group)
        found.append(_label(panel, _text(group, prefix), left, highest, "top right"))
    highest = max((roof.rate for roof in memory), default=max(ys))
    if launch_ns and left < (end := min(right, highest * launch_ns / 1e9)):
        roof = Roof(device="", kind="memory", name=f"shortest kernel {duration(launch_ns)}", rate=1e9 / launch_ns)
        line = _line(panel, roof, [left, end], [left * roof.rate, end * roof.rate])
        line |= {"hovertext": hover("shortest kernel", [("measured", duration(launch_ns))])}
        found += [line, _label(panel, prefix + roof.name, left, left * roof.rate, "bottom right")]
    return found


def _near(roofs: Iterable[Roof]) -> list[list[Roof]]:
    """Roofs from the highest down, those near each other together."""
    groups: list[list[Roof]] = []
    for roof in sorted(roofs, key=lambda roof: -roof.rate):
        if groups and groups[-1][0].rate / roof.rate < NEAR:
            groups[-1].append(roof)
        else:
            groups.append([roof])
    return groups


def _text(roofs: Sequence[Roof], prefix: str) -> str:
    return prefix + ", ".join(f"{_name(roof)} {format_rate(roof.rate, _unit(roof))}" for roof in roofs)


def _name(roof: Roof) -> str:
    if roof.within_bytes is None:
        return roof.name
    return f"{roof.name} up to {format_traffic(roof.within_bytes)}"


def _unit(roof: Roof) -> Any:
    return _UNITS[roof.kind]


def _line(panel: Panel, roof: Roof, xs: list[float], ys: list[float]) -> Trace:
    dash = {"copy": "solid"}.get(roof.name, "dash" if roof.kind == "memory" else "solid")
    dash = dash if roof.within_bytes is None else "dot"
    return {
        "type": "scatter",
        "mode": "lines",
        **panel.axes,
        "x": xs,
        "y": ys,
        "line": {"color": colour("muted"), "width": 1.5, "dash": dash},
        "hoverinfo": "text",
        "hovertext": hover(_name(roof), [("measured", format_rate(roof.rate, _unit(roof)))]),
    }


def _label(panel: Panel, text: str, x: float, y: float, position: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "text",
        **panel.axes,
        "x": [x],
        "y": [y],
        "text": [escaped(text)],
        "textposition": position,
        "textfont": {"color": colour("muted"), "size": 12},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
