"""The figures of ``/metrics``, sent at an interval by OpenTelemetry (OTLP over HTTP).

Every figure is read from the registry of ``/metrics``, so that each event is counted once. The API of OpenTelemetry has
no observable histogram, so the data points are built here; the exporter of its SDK sends them. The standard environment
variables state the endpoint, its headers and TLS, the interval and the resource.

No caller reads them, so no role decides which budgets they show. Names of scopes may be private: the budgets at and
under a scope are sent only if the server was started with that scope.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, final

from epsilog.ledger.scopes import list_ancestors
from epsilog.server.access import Holder, Role
from epsilog.server.metrics import collect_budgets
from epsilog.server.page_data import open_readable_ledger
from epsilog.terms import CheckError, EpsilogError
from epsilog.terms.extras import install_command

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricExporter, MetricsData
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family

SECONDS = 60.0  # between two exports, unless OTEL_METRIC_EXPORT_INTERVAL (in milliseconds) states another time
CLOSE_SECONDS = 2.0  # for a last export when the server ends
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_PROTOCOL = "http/protobuf"
_LOG = logging.getLogger("uvicorn.error")


def is_requested(environment: Mapping[str, str]) -> bool:
    """Return whether environment variables ask for an export: they state an endpoint, and do not turn it off."""
    exporters = {name.strip() for name in environment.get("OTEL_METRICS_EXPORTER", "otlp").split(",")}
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not is_disabled and "otlp" in exporters and any(environment.get(name) for name in _ENDPOINTS)


def open_telemetry(registry: CollectorRegistry, ledger: str | None, scopes: tuple[str, ...]) -> Telemetry | None:
    """Return what exports the figures, not yet started, if the environment asks for it; None if it does not.

    Args:
        registry: the figures of the server.
        ledger: whose budgets are sent.
        scopes: of these budgets.

    Raises:
        CheckError: scopes are given and no endpoint, or a variable has no valid value.
        EpsilogError: scopes are given, and the extra ``otel`` is not installed.
    """
    for scope in scopes:
        list_ancestors(scope)
    if not is_requested(os.environ):
        if scopes:
            raise CheckError(_ENDPOINTS[1], "given with --otel-scope", "nothing")
        return None
    try:
        seconds, exporter = _read_interval(os.environ), _open_exporter(os.environ)
    except (EpsilogError, ValueError) as error:
        if scopes:
            raise
        _LOG.error("metrics are not exported: %s", error)  # a server may have inherited the variables
        return None
    return Telemetry(registry, ledger, scopes, exporter=exporter, seconds=seconds)


def _read_interval(environment: Mapping[str, str]) -> float:
    text = environment.get(_INTERVAL, "")
    if not text:
        return SECONDS
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise CheckError(_INTERVAL, "a whole number of milliseconds above 0", repr(text[:50]))
    return int(text) / 1000


def _open_exporter(environment: Mapping[str, str]) -> MetricExporter:
    name, protocol = next(((one, environment[one]) for one in _PROTOCOLS if environment.get(one)), ("", _PROTOCOL))
    if protocol != _PROTOCOL:
        raise CheckError(name, _PROTOCOL, repr(protocol[:50]))
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError as error:
        raise EpsilogError(
            f"the export of metrics needs the extra `otel`: {install_command('otel')} ({error})"
        ) from error
    return OTLPMetricExporter()


@final
class Telemetry:
    """Sends the figures of a server from a thread.

    Args:
        registry: the figures.
        ledger: whose budgets are sent; None sends none.
        scopes: of these budgets, each with all under it.
        exporter: sends them.
        seconds: between two exports.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        ledger: str | None,
        scopes: tuple[str, ...],
        *,
        exporter: MetricExporter,
        seconds: float = SECONDS,
    ) -> None:
        self._registry, self._ledger, self._exporter, self._seconds = registry, ledger, exporter, seconds
        self._readers = [Holder("otel", Role.READER, scope) for scope in scopes]
        self._over, self._last_trouble = threading.Event(), ""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Export once per interval from now on."""
        self._thread = threading.Thread(target=self._run, name="epsilog-telemetry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Export once more, and end; an endpoint that does not answer delays this by little."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        self._exporter.shutdown()

    def collect(self) -> MetricsData:
        """Return the figures as they are now."""
        families = list(self._registry.collect())
        if self._ledger is not None and self._readers:
            families += self._read_budgets(self._ledger)
        return build_metrics_data(families, time.time_ns())

    def _read_budgets(self, url: str) -> list[Family]:
        """Return the gauges of budgets; none while the ledger cannot be read, which is logged once."""
        try:
            with open_readable_ledger(url) as ledger:
                found = [
                    one for one in ledger.budgets() if any(each.contains_scope(one.scope) for each in self._readers)
                ]
        except (EpsilogError, OSError) as error:
            if str(error) != self._last_trouble:
                _LOG.error("budgets are not exported: %s", error)
            self._last_trouble = str(error)
            return []
        self._last_trouble = ""
        return list(collect_budgets(found).collect())

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(self._seconds)
            try:
                self._exporter.export(self.collect())  # it logs why it cannot send
            except Exception:  # noqa: BLE001 (whatever it is, the ledger is served, and the next one may succeed)
                _LOG.exception("metrics were not exported")


def build_metrics_data(families: Iterable[Family], now: int) -> MetricsData:
    """Return Prometheus's counters, gauges and histograms as cumulative data points of OpenTelemetry.

    A counter's name has no ``_total``, as the specification has it; labels become attributes.

    Args:
        families: as a registry collects them.
        now: Unix time in nanoseconds.
    """
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    found = version("epsilog")
    resource = Resource({"service.name": "epsilog", "service.version": found}).merge(OTELResourceDetector().detect())
    metrics = [_convert_family(one, now) for one in families]
    scope = ScopeMetrics(InstrumentationScope("epsilog", found), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _convert_family(family: Family, now: int) -> Metric:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Metric, NumberDataPoint, Sum

    begun = {
        _get_key(one.labels): int(one.value * 1e9) for one in family.samples if one.name == f"{family.name}_created"
    }
    data: Gauge | Histogram | Sum
    if family.type == "histogram":
        data = Histogram(_convert_histogram(family, begun, now), AggregationTemporality.CUMULATIVE)
    else:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        points = [
            NumberDataPoint(one.labels, begun.get(_get_key(one.labels), 0), now, one.value)  # 0: since an unknown time
            for one in family.samples
            if one.name == name
        ]
        is_counter = family.type == "counter"
        data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if is_counter else Gauge(points)
    return Metric(family.name, family.documentation, None, data)


def _convert_histogram(family: Family, begun: Mapping[frozenset[tuple[str, str]], int], now: int) -> list[Any]:
    """Return a data point for each set of labels: counts per bucket, where Prometheus has running sums."""
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    bounds: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = defaultdict(list)
    sums: dict[frozenset[tuple[str, str]], float] = {}
    for one in family.samples:
        labels = {name: value for name, value in one.labels.items() if name != "le"}
        if one.name == f"{family.name}_bucket":
            bounds[_get_key(labels)].append((float(one.labels["le"]), one.value))
        elif one.name == f"{family.name}_sum":
            sums[_get_key(labels)] = one.value
    points = []
    unknown: Any = None  # the registry keeps no extremes
    for key, buckets in bounds.items():
        upper, running = zip(*sorted(buckets), strict=True)
        counts = [int(this - before) for this, before in zip(running, (0.0, *running), strict=False)]
        points.append(
            HistogramDataPoint(
                dict(key), begun.get(key, 0), now, sum(counts), sums[key], counts, upper[:-1], unknown, unknown
            )
        )
    return points


def _get_key(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())
