"""A process that starts a model server and waits to be killed. Arguments: FOLDER MODEL CONFIG (JSON)."""

from __future__ import annotations

import json
import sys
import time

from coevolve_lab.background import VllmServer
from coevolve_lab.config import EngineConfig

folder, model, config = sys.argv[1:]
VllmServer(folder).start(model, EngineConfig(**json.loads(config)), lora_rank=8, dtype="float32")
print("owner", flush=True)
time.sleep(600)
