"""Faults of clients: gone in the middle of a request, slow, a thousand at once, one request delivered twenty times."""

import selectors
import socket
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx

from benchmarks.faults_scene import Outcome, Scene, wait_until

CONNECTIONS = 1000


def count_connections(port: int) -> int:
    """Connections to a port of this machine, as its server sees them, those included that the client has given up."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    states = [line.split()[3] for line in lines if line.split()[1].endswith(f":{port:04X}")]
    return sum(state in ("01", "08") for state in states)  # established, half closed


def go_away(lease: float) -> Outcome:
    """Fifty clients hang up in the middle of a body, and fifty while they wait for judgements."""
    with Scene(lease=lease) as scene:
        scene.start_worker(ready=True)
        outcome = Outcome()
        for number in range(50):
            with socket.create_connection(("127.0.0.1", scene.port)) as client:
                client.send(b"POST /v1/evaluations HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
            body = httpx.Request(
                "POST", scene.url, json=scene.body(1, f"gone-{number}", salt=str(number), only="accepted")
            )
            with socket.create_connection(("127.0.0.1", scene.port)) as client:
                head = f"POST /v1/evaluations?wait=50 HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body.content)}\r\n"
                client.send(f"{head}Content-Type: application/json\r\n\r\n".encode() + body.content)
                time.sleep(0.02)
        since = time.monotonic()
        ids = [f"gone-{number}" for number in range(50)]
        known = [id for id in ids if scene.http.get(f"/v1/evaluations/{id}").status_code == 200]
        for id in known:
            wait_until(lambda id=id: (scene.counts(id) or {"done": 0})["done"] == 1, 60, f"{id} wasn't judged")
        outcome.submissions, outcome.done = len(known), time.monotonic() - since
        for id in known:
            [item] = scene.http.get(f"/v1/evaluations/{id}").json()["judgements"]
            outcome.wrong += item["verdict"] != "accepted"
        wait_until(lambda: count_connections(scene.port) <= 2, 70, "The API kept their connections open")
        outcome.notes.append("what was posted whole is judged; no connection is left")
        return outcome


def be_slow(lease: float, seconds: float, connections: int = 200) -> Outcome:
    """A byte a second, of the head and of the body, while another client works."""
    with Scene(lease=lease) as scene:
        scene.start_worker(ready=True)
        heads = [socket.create_connection(("127.0.0.1", scene.port)) for _ in range(connections)]
        bodies = [socket.create_connection(("127.0.0.1", scene.port)) for _ in range(connections)]
        for client in heads:
            client.send(b"GET /health HTTP/1.1\r\nHost: a\r\nX: ")
        for client in bodies:
            client.send(b"POST /v1/evaluations HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{")
        since = time.monotonic()
        id = scene.post(12)
        latencies = []
        while time.monotonic() - since < seconds:
            latencies.append(take_time(scene.http))
            for client in (*heads, *bodies):
                try:
                    client.send(b" ")
                except OSError:
                    client.close()
                    (heads if client in heads else bodies).remove(client)
            time.sleep(max(0, min(1, 1 - latencies[-1])))
        outcome = scene.finish([id], since)
        outcome.went_on = outcome.done = None
        outcome.demand(not heads and not bodies, f"{len(heads)} heads and {len(bodies)} bodies still go on")
        for client in (*heads, *bodies):
            client.close()
        outcome.notes.append(
            f"{2 * connections} connections hung up on; /health meanwhile: {describe(latencies, outcome)}"
        )
        return outcome


def take_time(client: httpx.Client) -> float:
    """Seconds until /health answers; infinite where it says that something is down."""
    begun = time.monotonic()
    answer = client.get("/health")
    return time.monotonic() - begun if answer.is_success else float("inf")


def describe(latencies: list[float], outcome: Outcome) -> str:
    """Median and most, in milliseconds."""
    well = [latency for latency in latencies if latency < float("inf")] or [0.0]
    outcome.demand(len(well) == len(latencies), f"/health said {len(latencies) - len(well)} times that Redis is away")
    return f"{1000 * statistics.median(well):.0f} ms in the median, {1000 * max(well):.0f} at most"


def come_together(lease: float) -> Outcome:
    """A thousand connections at once, each with an evaluation to post and to wait for."""
    with Scene(lease=lease) as scene:
        for _ in range(2):
            scene.start_worker(ready=True)
        first = scene.body(1, salt="same", only="accepted")
        latencies: list[float] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.05):
                latencies.append(take_time(scene.http))

        watcher = threading.Thread(target=watch)
        with selectors.DefaultSelector() as selector:
            clients = [socket.create_connection(("127.0.0.1", scene.port)) for _ in range(CONNECTIONS)]
            watcher.start()
            since = time.monotonic()
            for number, client in enumerate(clients):
                content = httpx.Request("POST", scene.url, json={**first, "id": f"c{number}"}).content
                head = f"POST /v1/evaluations HTTP/1.1\r\nHost: a\r\nContent-Length: {len(content)}\r\n"
                client.send(f"{head}Content-Type: application/json\r\n\r\n".encode() + content)
                client.setblocking(False)
                selector.register(client, selectors.EVENT_READ, number)
            answers: dict[int, bytes] = {}
            while len(answers) < CONNECTIONS and time.monotonic() - since < 90:
                for key, _ in selector.select(1):
                    client = key.fileobj
                    assert isinstance(client, socket.socket)
                    answers[key.data] = client.recv(65536)[:12]
                    selector.unregister(client)
        outcome = Outcome(submissions=CONNECTIONS, went_on=time.monotonic() - since)
        stop.set()
        watcher.join()
        for client in clients:
            client.close()
        refused = [number for number in range(CONNECTIONS) if answers.get(number) == b"HTTP/1.1 503"]
        taken = sum(answer in (b"HTTP/1.1 200", b"HTTP/1.1 202") for answer in answers.values())
        others = CONNECTIONS - taken - len(refused)
        outcome.demand(not others, f"{others} of {CONNECTIONS} were neither taken nor told to come back")
        for number in refused:  # as clients do
            scene.http.post("/v1/evaluations", json={**first, "id": f"c{number}"}).raise_for_status()
        outcome.notes.append(f"{taken} taken at once, {len(refused)} told to come back (503), which they did")
        left = {f"c{number}" for number in range(CONNECTIONS)}
        while left and time.monotonic() - since < 150:
            left = {id for id in left if (scene.counts(id) or {"done": 0})["done"] == 0}
        outcome.lost, outcome.done = len(left), time.monotonic() - since
        outcome.notes.append(f"/health meanwhile: {describe(latencies, outcome)}")
        return outcome


def deliver_often(lease: float) -> Outcome:
    """One request, from twenty threads at once, five times over."""
    with Scene(lease=lease) as scene:
        for _ in range(2):
            scene.start_worker(ready=True)
        ids = [f"again-{number}" for number in range(5)]
        answers: list[tuple[int, str]] = []

        def deliver(id: str, body: dict[str, object]) -> None:
            answer = httpx.post(f"{scene.url}/v1/evaluations", params={"wait": 50}, json=body, timeout=70)
            answers.append((answer.status_code, answer.text))

        since = time.monotonic()
        for id in ids:
            body = scene.body(6, id, salt=id)
            threads = [threading.Thread(target=deliver, args=(id, body)) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        outcome = scene.finish(ids, since)
        outcome.went_on = None
        outcome.demand({status for status, _ in answers} == {200}, f"answers: {sorted({s for s, _ in answers})}")
        outcome.demand(len({text for _, text in answers}) == len(ids), "the answers differ")
        judged = sum(Path(worker.log).read_text().count("event=judged") for worker in scene.workers)
        outcome.demand(judged == 30, f"{judged} judgements were made of 30 submissions")
        return outcome


def list_faults(quick: bool) -> dict[str, Callable[[], Outcome]]:
    """Each by its name."""
    lease = 2.0 if quick else 10.0
    return {
        "clients gone in the middle of a request": partial(go_away, lease),
        "clients slow: a byte a second": partial(be_slow, lease, 36.0),
        "clients: a thousand at once": partial(come_together, lease),
        "clients: one request delivered twenty times": partial(deliver_often, lease),
    }
