"""Figures of a gateway, as Prometheus reads them.

No label names a machine or a person: two thousand series help nobody, and names are
private.
"""

from __future__ import annotations

from collections.abc import Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
TAP_RESULTS = (
    "settled", "ended", "sent", "away", "again", "stranger", "refused",
)  # fmt: skip


class Metrics:
    """Counters that only grow; gauges are asked for when somebody looks."""

    def __init__(self) -> None:
        self.taps = dict.fromkeys(TAP_RESULTS, 0)
        self.asks = 0
        self.shown = 0
        self.logins = 0
        self.refused_logins = 0
        self._seconds = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def tap(self, result: str, seconds: float) -> None:
        """A tap was answered."""
        self.taps[result] += 1
        place = next((n for n, le in enumerate(BUCKETS) if seconds <= le), len(BUCKETS))
        self._seconds[place] += 1
        self._sum += seconds

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything, with what is true right now."""
        lines: list[str] = []
        for name, (help, value) in gauges.items():
            lines += _head(name, help, "gauge")
            lines.append(f"{name} {value:g}")
        counters = {
            "feishuperm_asks_total": ("Requests of machines.", self.asks),
            "feishuperm_cards_total": ("Cards that reached Feishu.", self.shown),
            "feishuperm_logins_total": ("Machines that logged in.", self.logins),
            "feishuperm_refused_logins_total": (
                "Logins with a wrong key or of nobody.",
                self.refused_logins,
            ),
        }
        for name, (help, count) in counters.items():
            lines += _head(name, help, "counter")
            lines.append(f"{name} {count}")
        lines += _head("feishuperm_taps_total", "Taps by what came of them.", "counter")
        lines += [
            f'feishuperm_taps_total{{result="{result}"}} {count}'
            for result, count in self.taps.items()
        ]
        return "\n".join([*lines, *self._histogram(), ""])

    def _histogram(self) -> list[str]:
        name = "feishuperm_tap_seconds"
        lines = _head(name, "From a tap's arrival to its answer.", "histogram")
        total = 0
        for le, count in zip((*BUCKETS, "+Inf"), self._seconds):
            total += count
            lines.append(f'{name}_bucket{{le="{le}"}} {total}')
        return [*lines, f"{name}_sum {self._sum:.6f}", f"{name}_count {total}"]


def _head(name: str, help: str, kind: str) -> list[str]:
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
