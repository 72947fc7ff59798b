"""A service of a few lines that says what a test wants it to: for failures that the real one can't be asked for."""

import http.server
import json
import threading
from collections.abc import Callable
from typing import Any

ACCEPTED = {"verdict": "accepted", "reward": 1.0}
LOST = {"verdict": "internal_error", "reward": None, "reason": "box_lost", "detail": "Two boxes were lost."}


class ScriptedService:
    """Answers each submission with what `judge` gives for it, and keeps what it was sent."""

    def __init__(self, judge: Callable[[dict[str, Any]], dict[str, Any]], status: int = 200) -> None:
        self.judge, self.status = judge, status
        self.suites: dict[str, bytes] = {}
        self.uploads = 0
        self.posted: list[dict[str, Any]] = []
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self._answer(204 if self.path.rpartition("/")[2] in service.suites else 404)

            def do_PUT(self) -> None:
                service.uploads += 1
                service.suites[self.path.rpartition("/")[2]] = self._body()
                self._answer(201, {})

            def do_POST(self) -> None:
                body = json.loads(self._body())
                service.posted.append(body)
                if service.status != 200:
                    self._answer(service.status, {"status": service.status, "detail": "Said why.", "title": "No"})
                    return
                judged = [service.judge(submission) for submission in body["submissions"]]
                self._answer(200, {"id": body["id"], "state": "done", "judgements": judged})

            def do_DELETE(self) -> None:
                self._answer(204)

            def _body(self) -> bytes:
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def _answer(self, status: int, body: Any = None) -> None:
                data = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def answers(self) -> list[list[str]]:
        """The answers of each request."""
        return [[submission["answer"] for submission in body["submissions"]] for body in self.posted]

    def __enter__(self) -> "ScriptedService":
        self.thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
