"""Figures as Prometheus reads them."""

from __future__ import annotations

import re

from feishuperm.gateway.metrics import Metrics

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\\n]*"\})? -?[0-9.e+-]+\Z')


def test_text_keeps_the_rules_of_the_format() -> None:
    metrics = Metrics()
    for result, seconds in (("settled", 0.004), ("sent", 2.5), ("away", 9.0)):
        metrics.tap(result, seconds)
    text = metrics.text({"feishuperm_machines": ("Connected machines.", 2)})
    assert text.endswith("\n")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.match(line) for line in samples)
    keys = [line.rpartition(" ")[0] for line in samples]
    assert len(keys) == len(set(keys)), "twice the same makes the whole scrape fail"
    assert 'feishuperm_tap_seconds_bucket{le="+Inf"} 3' in samples
    assert "feishuperm_tap_seconds_count 3" in samples
    assert 'feishuperm_tap_seconds_bucket{le="0.01"} 1' in samples
    assert 'feishuperm_taps_total{result="away"} 1' in samples
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
