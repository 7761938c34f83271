"""What the server counts, in Prometheus's text format."""

import prometheus_client

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
TYPE = prometheus_client.CONTENT_TYPE_LATEST


class Metrics:
    """Counters of one server, in a registry of their own.

    Names of models come from the server's own table, never from a request: an unknown one is counted as "".
    """

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)  # memory, CPU seconds
        name = "keras_bert"
        self.requests = prometheus_client.Counter(
            f"{name}_requests", "Requests for predictions.", ("model", "status"), registry=self.registry
        )
        self.seconds = prometheus_client.Histogram(
            f"{name}_request_seconds",
            "Time of a request, waiting included.",
            ("model",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batches = prometheus_client.Histogram(
            f"{name}_batch_rows", "Rows that went through a model together.", buckets=ROWS, registry=self.registry
        )
        self.waiting = prometheus_client.Gauge(f"{name}_waiting_rows", "Rows that wait.", registry=self.registry)
        self.version = prometheus_client.Gauge(
            f"{name}_model_version", "The newest version that answers; 0 for none.", ("model",), registry=self.registry
        )

    def text(self):
        """All of them, as bytes."""
        return prometheus_client.generate_latest(self.registry)
