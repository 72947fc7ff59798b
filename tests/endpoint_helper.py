"""A model behind an OpenAI-compatible endpoint: a real HTTP server whose answers a test writes."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Model:
    """Answers over HTTP as `respond` says: prompt and number of the answer in, text out."""

    def __init__(self, respond: Callable[[str, int], str], *, at_once: bool = True, busy: int = 0) -> None:
        """`at_once`: it gives as many answers as asked for; `busy`: it refuses the first requests."""
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self._lock = threading.Lock()
        self._given: dict[str, int] = {}
        self._busy = busy
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.keys.add(self.headers["Authorization"])
                status, answer = (
                    model._answer(body, respond, at_once) if self.path == "/v1/chat/completions" else (404, {})
                )
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def _answer(self, body: dict[str, Any], respond: Callable[[str, int], str], at_once: bool) -> tuple[int, Any]:
        with self._lock:
            self.requests.append(body)
            if self._busy:
                self._busy -= 1
                return 503, {"error": "busy"}
            prompt = body["messages"][0]["content"]
            first = self._given.get(prompt, 0)
            count = body["n"] if at_once else 1
            self._given[prompt] = first + count
        texts = [respond(prompt, number) for number in range(first, first + count)]
        return 200, {"choices": [{"message": {"role": "assistant", "content": text}} for text in texts]}

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
