"""A loopback server that speaks as much of vLLM's protocol as an engine asks for, and breaks in chosen ways."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Body = dict[str, Any]


def logprob(weights: str, token: int) -> float:
    """What a version, known by its folder's name, says of a token."""
    return -1.0 - (sum(weights.encode()) % 97) / 100 - token / 1000


class FakeVllm:
    """``reply`` may be replaced: (body of a completion request) -> (status, bytes). adapters: name -> folder's name."""

    def __init__(self) -> None:
        self.adapters: dict[str, str] = {}
        self.used: list[str] = []  # every name that was ever loaded
        self.requests: list[Body] = []
        self.base_weights = "base"
        self.room = 100  # tokens of a conversation
        self.asleep = False
        self.sleeps = True  # whether it can
        self.reply: Callable[[Body], tuple[int, bytes]] = self.honest
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.answer(self, {})

            def do_POST(self) -> None:
                fake.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: Body) -> None:
        status, reply = self.route(handler.path, body)
        try:
            handler.send_response(status)
            handler.send_header("Content-Length", str(len(reply)))
            handler.end_headers()
            handler.wfile.write(reply)
        except ConnectionError:
            pass  # the request was given up meanwhile

    def route(self, path: str, body: Body) -> tuple[int, bytes]:
        if path == "/v1/completions":
            self.requests.append(body)
            return self.reply(body)
        if path == "/v1/models":
            base = {"id": "base", "parent": None, "max_model_len": self.room}
            return _json({"data": [base, *({"id": name, "parent": "base"} for name in self.adapters)]})
        if path == "/v1/load_lora_adapter":
            self.used.append(body["lora_name"])
            self.adapters[body["lora_name"]] = Path(body["lora_path"]).name
        elif path == "/v1/unload_lora_adapter":
            del self.adapters[body["lora_name"]]
        elif path == "/collective_rpc":
            self.base_weights = Path(body["kwargs"]["weights_path"]).name
        elif path == "/reset_prefix_cache":
            return _json({"success": True})
        elif path == "/sleep?level=1":
            self.asleep = self.sleeps
        elif path == "/wake_up":
            self.asleep = False
        elif path == "/is_sleeping":
            return _json({"is_sleeping": self.asleep})
        else:
            return 404, b"{}"
        return _json({})

    def honest(self, body: Body) -> tuple[int, bytes]:
        """Three tokens, the last the first of the stop tokens; or the log-probabilities of the prompt."""
        if body["model"] not in (*self.adapters, "base"):
            return 404, json.dumps({"error": f"The model `{body['model']}` does not exist."}).encode()
        weights = self.adapters.get(body["model"], self.base_weights)
        if "prompt_logprobs" in body:
            rows = [{str(token): {"logprob": logprob(weights, token)}} for token in body["prompt"]]
            return _json({"choices": [{"prompt_logprobs": [None, *rows[1:]]}]})
        ids = [5, 6, *body["stop_token_ids"][:1]][: body["max_tokens"]]
        choice = {
            "token_ids": ids,
            "prompt_token_ids": body["prompt"],
            "logprobs": {"token_logprobs": [logprob(weights, token) for token in ids]},
            "finish_reason": "stop" if len(ids) == 3 else "length",
        }
        return _json({"choices": [choice]})


def _json(tree: Any) -> tuple[int, bytes]:
    return 200, json.dumps(tree).encode()
