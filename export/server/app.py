"""The server's routes: predictions, status, metadata, health and metrics."""

import asyncio
import contextlib
import json
import logging
import re
import socket
import time

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from keras_bert.export.server import rest
from keras_bert.export.server.batching import Batcher
from keras_bert.export.server.metrics import TYPE, Metrics
from keras_bert.export.server.refusal import Refusal

PLACE = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<number>[0-9]{1,18})|/labels/(?P<label>[^/:]+))?"
    r"(?P<ask>:predict|:classify|:regress|/metadata)?"
)

LARGE = 10_000  # bytes of a body, or values of an answer


def application(models, limits, poll_s=1.0):
    """Gives the ASGI application.

    Args:
        models: `Models`, loaded.
        limits: `Limits`.
        poll_s: seconds between two looks for new versions.
    """
    metrics = Metrics()
    batcher = Batcher(limits, metrics.batches.observe)

    async def models_route(request):
        place = PLACE.fullmatch(request.scope["path"])
        if place is None:
            raise Refusal(404, f"There is nothing at {request.url.path}; try /v1/models/NAME:predict.")
        wanted = (place["name"], None if place["number"] is None else int(place["number"]), place["label"])
        if place["ask"] in (":classify", ":regress"):
            raise Refusal(400, "These models take texts, not tf.Examples; use :predict.")
        if (request.method == "POST") != (place["ask"] == ":predict"):
            raise Refusal(405, f"Predictions are asked by POST, all else by GET; got {request.method}.")
        if place["ask"] == ":predict":
            return await predict(request, wanted)
        return _json(metadata(models, *wanted) if place["ask"] else status(models, *wanted))

    async def predict(request, wanted):
        name = wanted[0] if wanted[0] in models.folders else ""
        begun, code = time.perf_counter(), 500
        try:
            version = models.find(*wanted)
            body = await _body(request, limits)
            asked = await _apart(len(body), rest.read_request, body, version.signatures)
            signature, inputs, in_rows = asked
            outputs = await batcher.ask(version.signatures[signature].run, inputs)
            size = sum(array.size for array in outputs.values())
            answer, code = await _apart(size, lambda: _json(rest.response(outputs, in_rows))), 200
        except Refusal as refusal:
            code = refusal.status
            raise
        finally:
            metrics.requests.labels(name, code).inc()
            metrics.seconds.labels(name).observe(time.perf_counter() - begun)
        return answer

    async def health(_):
        without = [name for name in models.folders if not models.newest(name)]
        if without:
            raise Refusal(503, f"No version answers of {', '.join(without)}.")
        return _json({"status": "ok"})

    async def counted(_):
        metrics.waiting.set(batcher.rows)
        for name in models.folders:
            metrics.version.labels(name).set(models.newest(name))
        return Response(metrics.text(), media_type=TYPE)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        looking = asyncio.create_task(_look(models, poll_s))
        yield
        looking.cancel()
        batcher.close()

    routes = [
        Route("/v1/models/{rest:path}", models_route, methods=["GET", "POST"]),
        Route("/healthz", health),
        Route("/metrics", counted),
    ]
    handlers = {Refusal: _refused, HTTPException: _no_route, Exception: _failed}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


def listen(host, port):
    """Gives a socket that is bound already, so that its port is known before the server runs; port 0 is a free one."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048)


def run(app, listening):
    """Serves `app` on a bound socket until SIGINT or SIGTERM; requests that are there are answered first."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="on")
    uvicorn.Server(config).run(sockets=[listening])


def status(models, name, number=None, label=None):
    """The value of a status request: each version with its state."""
    entries = models.entries(name)
    if number is None and label is None:
        chosen = entries
    elif label is None and number in entries:
        chosen = {number: entries[number]}
    else:
        number = models.find(name, number, label).number
        chosen = {number: entries[number]}
    rows = []
    for number, entry in sorted(chosen.items(), reverse=True):
        said = {"error_code": "UNKNOWN" if entry.error else "OK", "error_message": entry.error}
        rows.append({"version": str(number), "state": "AVAILABLE" if entry.version else "END", "status": said})
    return {"model_version_status": rows}


def metadata(models, name, number=None, label=None):
    """The value of a metadata request: the version's signatures."""
    version = models.find(name, number, label)
    return {
        "model_spec": {"name": name, "signature_name": "", "version": str(version.number)},
        "metadata": {"signature_def": {"signature_def": version.metadata}},
    }


async def _body(request, limits):
    """Reads the body, but no more of it than is allowed, and for no longer."""
    too_large = Refusal(413, f"A body may have {limits.max_body_bytes} bytes; send several requests.")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limits.max_body_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.max_body_bytes:
                    raise too_large
    except TimeoutError:
        raise Refusal(408, f"The body did not come within {limits.timeout_s:g} s.") from None
    except ClientDisconnect:
        raise Refusal(400, "The body is not complete.") from None
    return bytes(body)


async def _apart(size, function, *arguments):
    """Calls a function; for what takes milliseconds, in a thread, so that other requests need not wait for it."""
    if size < LARGE:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


async def _look(models, poll_s):
    while True:
        await asyncio.sleep(poll_s)
        try:
            await asyncio.to_thread(models.refresh)
        except Exception:
            logging.getLogger(__name__).exception("The look for new versions failed.")


def _json(value, code=200, headers=None):
    return Response(json.dumps(value, ensure_ascii=False), code, headers, "application/json")


def _refused(_, refusal):
    headers = {"retry-after": "1"} if refusal.status in (429, 503) else None
    if refusal.status in (408, 413):  # the rest of the body is not read
        headers = {"connection": "close"}
    return _json({"error": str(refusal)}, refusal.status, headers)


def _no_route(request, error):
    return _json({"error": f"{error.detail}: {request.method} {request.url.path}."}, error.status_code)


def _failed(*_):
    return _json({"error": "The server failed; its log tells why."}, 500)
