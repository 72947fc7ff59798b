"""`/metrics` in Prometheus' text format: what the service has counted, how it is now, and this process's requests.

Workers have no port: they add what they count to Redis (`statistics.py`), so one scrape of any API process shows all of
them, on one machine or many. Requests and their durations are this process's own. No label holds anything a client
chose: routes are the templates that the service has, methods and verdicts come from fixed lists.
"""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from evaluator.model import Verdict
from evaluator.suspicions import SuspicionKind
from service.evaluations import Depth
from service.statistics import distribution, labelled

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
ELSEWHERE = "none"
"""The route of a request that none of ours answers."""
REQUEST_BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)


class RequestMetrics:
    """What this process was asked."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "microcoder_http_requests",
            "Requests that this API process answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "microcoder_http_request_seconds",
            "From a request's arrival to the end of its answer, waiting for results included.",
            ("route",),
            buckets=REQUEST_BOUNDS,
            registry=self.registry,
        )

    def add(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request."""
        route = route or ELSEWHERE
        self._requests.labels(method if method in METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


def expose(counted: Mapping[str, float], depth: Depth, requests: RequestMetrics) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_Snapshot([*_counters(counted, depth), *_histograms(counted), *_gauges(counted, depth)]))
    return generate_latest(registry) + generate_latest(requests.registry)


class _Snapshot(Collector):
    """Metrics as they were read."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _counters(counted: Mapping[str, float], depth: Depth) -> Iterator[Metric]:
    judgements = "Submissions that got their result, however: judged, from the cache, cancelled, lost. Each once."
    yield _by_verdict("microcoder_judgements", judgements, labelled(counted, "judgements"))
    yield _by_verdict("microcoder_tests", "Tests that workers ran.", labelled(counted, "tests"))
    family = CounterMetricFamily("microcoder_suspicions", "Known tricks seen in what was judged.", labels=("kind",))
    for kind in SuspicionKind:
        family.add_metric((str(kind),), labelled(counted, "suspicions").get(kind, 0.0))
    yield family
    for name, text, value in (
        ("box_starts", "Boxes that workers started.", counted.get("box_starts", 0.0)),
        ("box_recycles", "Boxes that were destroyed because they weren't as new.", counted.get("box_recycles", 0.0)),
        ("cache_hits", "Submissions that the cache of results answered.", depth.hits),
        ("cache_misses", "Submissions that it didn't.", depth.misses),
    ):
        yield CounterMetricFamily(f"microcoder_{name}", text, value=value)


def _by_verdict(name: str, text: str, counts: Mapping[str, float]) -> Metric:
    """Every verdict is there from the start, so that the first of a kind is an increase too."""
    family = CounterMetricFamily(name, text, labels=("verdict",))
    for verdict in Verdict:
        family.add_metric((str(verdict),), counts.get(verdict, 0.0))
    return family


def _histograms(counted: Mapping[str, float]) -> Iterator[Metric]:
    for name, text in (
        ("turn_seconds", "How long a worker stayed with one evaluation."),
        ("test_seconds", "Wall time of tests, without time spent waiting for a processor."),
    ):
        found = distribution(counted, name)
        yield HistogramMetricFamily(f"microcoder_{name}", text, buckets=list(found.buckets), sum_value=found.sum)


def _gauges(counted: Mapping[str, float], depth: Depth) -> Iterator[Metric]:
    for name, text, value in (
        ("queue_submissions", "Submissions without a result, those in hand included.", depth.submissions),
        ("queue_evaluations", "Evaluations that aren't done.", depth.evaluations),
        ("queue_turns", "Turns that wait for a worker.", depth.turns),
        ("submissions_in_hand", "Submissions that workers have taken.", counted["claims"]),
        ("workers", "Workers that are alive.", depth.workers),
        ("suites", "Suites that are stored.", counted["suites"]),
        ("suite_bytes", "What stored suites take in Redis, compressed.", counted["suite_bytes"]),
        ("cache_results", "Results in the cache.", depth.cached_results),
        ("cache_bytes", "What they take in Redis.", depth.cached_bytes),
    ):
        yield GaugeMetricFamily(f"microcoder_{name}", text, value=value)
