"""Metrics by OpenTelemetry: what arrives at a receiver is what /metrics states, and no name that is not meant to."""

import gzip
import http.server
import itertools
import logging
import math
import os
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families
from tests.server.conftest import filled, serving
from tests.server.inside import ask

from epsilog.ledger import open_ledger
from epsilog.server import create_app, telemetry
from epsilog.server.telemetry import Telemetry, build_metrics_data, is_requested, open_telemetry
from epsilog.terms import CheckError, EpsilogError

PATIENCE = 60  # seconds for an export, which comes at once


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in os.environ:
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


@dataclass(frozen=True)
class Arrived:
    path: str
    headers: dict
    body: bytes

    @property
    def resource(self):
        (found,) = ExportMetricsServiceRequest.FromString(self.body).resource_metrics
        return {one.key: one.value.string_value for one in found.resource.attributes}

    @property
    def metrics(self):
        (found,) = ExportMetricsServiceRequest.FromString(self.body).resource_metrics
        (scope,) = found.scope_metrics
        return {one.name: one for one in scope.metrics}


@pytest.fixture
def receiver(monkeypatch):
    """A receiver of OTLP over HTTP, which the environment names; what arrives is in its queue."""
    arrived = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            arrived.put(Arrived(self.path, headers, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield arrived
        server.shutdown()


def flatten(metrics):
    """What arrived as Prometheus's samples: names and labels with values, of a histogram with running sums."""
    found = {}
    for name, metric in metrics.items():
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            labels = {one.key: one.value.string_value for one in point.attributes}
            if kind == "histogram":
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                running = 0
                for bound, count in zip([*point.explicit_bounds, math.inf], point.bucket_counts, strict=True):
                    running += count
                    le = "+Inf" if math.isinf(bound) else str(bound)
                    found[f"{name}_bucket", frozenset((labels | {"le": le}).items())] = running
                found[f"{name}_count", frozenset(labels.items())] = point.count
                found[f"{name}_sum", frozenset(labels.items())] = point.sum
            else:
                full = f"{name}_total" if kind == "sum" else name
                found[full, frozenset(labels.items())] = point.as_double
    return found


def read_page(text):
    """The samples of /metrics, without the times at which they began."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def drop_changing(samples):
    """Without what differs from one moment to the next, and without the request for /metrics itself."""
    return {
        (name, labels): value
        for (name, labels), value in samples.items()
        if not name.startswith("process_") and ("route", "/metrics") not in labels
    }


@pytest.mark.slow
@pytest.mark.parametrize("scopes", [(), ("acme",), ("acme/claims", "lab")])
def test_what_arrives_is_what_the_page_states(tmp_path, receiver, monkeypatch, scopes):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.version=9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    app = create_app(ledger=str(filled(tmp_path / "l.db")), otel_scopes=scopes)
    with serving(app) as site:
        for path in ("/api/v1/ledger", "/api/v1/runs", "/elsewhere", "/playground"):
            site.ask("GET", path)
        site.post("ledger/charge", {"scope": "acme"})
        page = read_page(site.ask("GET", "/metrics").body.decode())
    found = receiver.get(timeout=PATIENCE)  # the last export, when the server ended
    assert receiver.empty()
    assert (found.path, found.headers["authorization"]) == ("/v1/metrics", "Bearer x")
    assert found.headers["content-type"] == "application/x-protobuf"
    assert found.resource == {"service.name": "epsilog", "service.version": "9", "deployment.environment": "test"}
    sent = flatten(found.metrics)
    wanted = {
        (name, labels): value
        for (name, labels), value in page.items()
        if not name.startswith("epsilog_budget_")
        or any(f"{dict(labels)['scope']}/".startswith(f"{scope}/") for scope in scopes)
    }
    assert any(name == "epsilog_request_seconds_bucket" for name, _ in wanted)
    assert drop_changing(sent) == drop_changing(wanted)
    assert {name for name, _ in sent if name.startswith("process_")} == {
        name for name, _ in page if name.startswith("process_")
    }
    for scope in ("acme", "lab"):
        assert (scope.encode() in found.body) is any(one.startswith(scope) for one in scopes)


@pytest.mark.slow
def test_points_are_cumulative_since_a_stated_time(tmp_path, receiver):
    with serving(create_app()) as site:
        site.ask("GET", "/api/v1/runs")
    metrics = receiver.get(timeout=PATIENCE).metrics
    for name in ("epsilog_requests", "epsilog_request_seconds"):
        data = getattr(metrics[name], metrics[name].WhichOneof("data"))
        assert data.aggregation_temporality == 2  # cumulative
        for point in data.data_points:
            assert 0 < point.time_unix_nano - point.start_time_unix_nano < 10**12
    assert metrics["epsilog_requests"].sum.is_monotonic
    assert metrics["process_open_fds"].WhichOneof("data") == "gauge"


@pytest.mark.slow
def test_an_export_comes_once_per_interval(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    with serving(create_app()):
        times = [receiver.get(timeout=PATIENCE).metrics["epsilog_requests"] for _ in range(3)]
    assert len(times) == 3


@given(values=st.lists(st.floats(0, 50), max_size=30), amount=st.floats(0, 1e9))
def test_each_kind_of_figure_keeps_its_value(values, amount):
    registry = CollectorRegistry()
    histogram = Histogram("h", "A histogram.", ["x"], registry=registry, buckets=(0.5, 1, 20))
    for value in values:
        histogram.labels("a").observe(value)
    Gauge("g", "A gauge.", registry=registry).set(amount)
    Counter("c", "A counter.", registry=registry).inc(amount)
    (resource,) = build_metrics_data(registry.collect(), 1).resource_metrics
    found = {one.name: one.data.data_points for one in resource.scope_metrics[0].metrics}
    assert [found[name][0].value for name in "gc"] == [amount, amount]
    for point in found["h"]:
        edges = [-1, 0.5, 1, 20, math.inf]
        assert list(point.bucket_counts) == [
            sum(low < value <= high for value in values) for low, high in itertools.pairwise(edges)
        ]
        assert (point.count, point.attributes, list(point.explicit_bounds)) == (len(values), {"x": "a"}, edges[1:-1])
        assert point.sum == pytest.approx(sum(values))


# --- when it is started -----------------------------------------------------------------------------------------------

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_SERVICE_NAME": "epsilog"}, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318"}, False),
        (HERE, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318/v1/metrics"}, True),
        (HERE | {"OTEL_SDK_DISABLED": "True"}, False),
        (HERE | {"OTEL_SDK_DISABLED": "false"}, True),
        (HERE | {"OTEL_METRICS_EXPORTER": "none"}, False),
        (HERE | {"OTEL_METRICS_EXPORTER": "console, otlp"}, True),
    ],
)
def test_the_standard_variables_decide(variables, expected):
    assert is_requested(variables) is expected


WRONG = [
    (HERE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, got 'grpc'"),
    (HERE | {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"}, "must be http/protobuf, got 'http/json'"),
    (HERE | {"OTEL_METRIC_EXPORT_INTERVAL": "0"}, "OTEL_METRIC_EXPORT_INTERVAL must be a whole number"),
    (HERE | {"OTEL_METRIC_EXPORT_INTERVAL": "1s"}, "OTEL_METRIC_EXPORT_INTERVAL must be a whole number"),
]


@pytest.mark.parametrize(("variables", "message"), WRONG)
def test_wrong_variables_end_no_server_that_inherited_them(monkeypatch, caplog, variables, message):
    """With scopes the export was asked for, and the server does not start without it."""
    monkeypatch.setattr(telemetry, "_LOG", logging.getLogger("telemetry"))  # servers of other tests silence theirs
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    app = create_app()
    assert message in caplog.text
    assert ask(app, "GET", "/healthz").status == 200
    with pytest.raises(CheckError, match=message):
        create_app(otel_scopes=["acme"])


def test_scopes_without_an_endpoint_or_without_the_extra_are_refused(monkeypatch):
    with pytest.raises(CheckError, match="OTEL_EXPORTER_OTLP_ENDPOINT must be given with --otel-scope"):
        create_app(otel_scopes=["acme"])
    with pytest.raises(CheckError, match="scope"):
        create_app(otel_scopes=["acme//x"])
    monkeypatch.setenv(*next(iter(HERE.items())))
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(EpsilogError, match="needs the extra `otel`"):
        create_app(otel_scopes=["acme"])
    assert open_telemetry(CollectorRegistry(), None, ()) is None


@pytest.mark.slow
def test_nothing_is_loaded_where_nothing_asks_for_it():
    code = (
        "import sys, epsilog, epsilog.cli, epsilog.server; epsilog.server.create_app(); "
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- troubles ---------------------------------------------------------------------------------------------------------


class Blocked:
    """An exporter that waits for an endpoint which does not answer."""

    def __init__(self):
        self.waits, self.over, self.ended = threading.Event(), threading.Event(), False

    def export(self, _):
        self.waits.set()
        self.over.wait(PATIENCE)

    def shutdown(self):
        self.ended = True


def test_an_endpoint_that_does_not_answer_keeps_no_server_from_ending(monkeypatch):
    monkeypatch.setattr(telemetry, "CLOSE_SECONDS", 0.05)
    exporter = Blocked()
    sender = Telemetry(CollectorRegistry(), None, (), exporter=exporter, seconds=0.001)
    sender.start()
    assert exporter.waits.wait(PATIENCE)
    sender.close()
    assert exporter.ended
    assert sender._thread.is_alive()  # it was not waited for
    exporter.over.set()


def test_a_ledger_that_cannot_be_read_keeps_no_other_figure_back(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(telemetry, "_LOG", logging.getLogger("telemetry"))
    (tmp_path / "broken.db").write_bytes(b"no ledger")
    registry = CollectorRegistry()
    Gauge("g", "A gauge.", registry=registry).set(1)
    sender = Telemetry(registry, str(tmp_path / "broken.db"), ("acme",), exporter=Blocked())
    for _ in range(2):
        (resource,) = sender.collect().resource_metrics
        assert [one.name for one in resource.scope_metrics[0].metrics] == ["g"]
    assert caplog.text.count("budgets are not exported") == 1
    (tmp_path / "broken.db").unlink()
    with open_ledger(tmp_path / "broken.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="1")
    (resource,) = sender.collect().resource_metrics
    assert "epsilog_budget_cap" in [one.name for one in resource.scope_metrics[0].metrics]


def test_a_failure_ends_no_later_export(monkeypatch):
    class Failing(Blocked):
        asked = 0

        def export(self, _):
            self.asked += 1
            if self.asked == 1:
                raise RuntimeError("once")
            self.waits.set()

    monkeypatch.setattr(telemetry, "_LOG", logging.getLogger("silent"))
    sender = Telemetry(CollectorRegistry(), None, (), exporter=(exporter := Failing()), seconds=0.001)
    sender.start()
    assert exporter.waits.wait(PATIENCE)
    sender.close()
