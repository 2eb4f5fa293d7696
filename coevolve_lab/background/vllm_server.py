"""A vLLM server as a managed process: found by its folder, joined by whoever needs it, gone when nobody does.

It listens on loopback only. In its folder lie ``log.txt``, ``process.json`` (its supervisor), ``server.json`` (how it
is, written by the supervisor) and ``owners.json`` (the processes that started or joined it).
"""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from coevolve_lab.background.process import ManagedProcess, read_json, tail, write_json
from coevolve_lab.background.vllm_build import VllmBuild, find_vllm, interpreter
from coevolve_lab.background.vllm_supervisor import OWNERS, STATE, TERM_SECONDS, locked, sweep
from coevolve_lab.config import EngineConfig
from coevolve_lab.errors import BackgroundError, ConfigError

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM reserves space for
MAX_LORAS = 2  # in one batch: a version, and the one before while its last requests are in flight
MAX_KEPT_LORAS = 4
# Below what Linux gives to outgoing connections, so that none takes the port while the server still imports.
_PORTS = range(20_000, 32_000)
_OURS = (
    *("--model", "--served-model-name", "--host", "--port", "--uds", "--api-key", "--dtype", "--max-model-len"),
    *("--logprobs-mode", "--generation-config", "--enable-lora", "--max-lora-rank", "--max-loras", "--max-cpu-loras"),
    *("--gpu-memory-utilization", "--enable-sleep-mode"),
)
_SUPERVISE = "import sys; from coevolve_lab.background.vllm_supervisor import main; main(*sys.argv[1:])"
_WEIGHTS = (".safetensors", ".bin", ".gguf")
_SECRET_WORDS = {"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS"}
_LAST_WORDS = 15  # lines of the log in an error
_NOISE = ("nanobind:", " - ")  # what vLLM's libraries say at the end of every process
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class ServerStatus:
    """url: "" unless it runs. pid: of the server's front process. message: why it is dead, "" otherwise."""

    state: Literal["starting", "ready", "dead", "none"]
    url: str = ""
    pid: int | None = None
    message: str = ""


class VllmServer:
    """The server of one folder, e.g. ``RUN_DIR/server``. Making one of these objects starts and touches nothing."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()

    def start(
        self,
        model: str | Path,
        config: EngineConfig,
        *,
        lora_rank: int | None,
        dtype: str,
        served_name: str = "policy-base",
    ) -> None:
        """Start it, or join the one that runs with the same settings; it ends some seconds after its last owner.

        model: a folder or a hub name. lora_rank: the highest of the adapters to be served; None serves none. Returns
        at once: see ``wait_ready``. Raises PrerequisiteError without vLLM, ConfigError for settings that cannot be,
        BackgroundError when there is no such model folder or a server with other settings runs.
        """
        settings = _settings(model, config, lora_rank, dtype, served_name)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.folder):
            process = self._process()
            if process is not None and self.status().state != "dead":
                self._join(process, settings)
                return
            build = find_vllm(config.python)
            if config.sleep and build.cpu:
                raise ConfigError(
                    f"engine.sleep gives a GPU's memory back, and the vLLM of {build.python} computes on the CPU: "
                    "set engine.sleep to false"
                )
            self._clear()
            self._own([])
            self._launch(build, settings)

    def wait_ready(self, seconds: float) -> str:
        """The url, without a path, as soon as the server answers.

        Raises BackgroundError with the log's last words when it is dead or not ready in time, when none was started.
        """
        deadline = time.monotonic() + seconds
        while (status := self.status()).state != "ready":
            if status.state == "none":
                raise BackgroundError(f"no vLLM server was started in {self.folder}: use start()")
            if status.state == "dead":
                raise BackgroundError(f"the vLLM server is dead: {status.message}; it said:\n{self._last_words()}")
            if time.monotonic() > deadline:
                raise BackgroundError(
                    f"the vLLM server is not ready after {seconds:.0f} s (engine.ready_seconds); it goes on starting, "
                    f"stop() ends it. Its last words:\n{self._last_words()}"
                )
            time.sleep(_LOOK_SECONDS)
        return status.url

    def status(self) -> ServerStatus:
        """How it is at this moment, from the disk and the process table; asks the server nothing."""
        process = self._process()
        if process is None:
            return ServerStatus("none")
        told = read_json(self.folder / STATE)
        if told.get("supervisor") != process.pid:
            told = {"state": "starting"}
        message = str(told.get("message") or "its supervisor was killed")
        if told["state"] in ("ending", "ended") or not process.alive():
            return ServerStatus("dead", message=message)
        return ServerStatus(told["state"], f"http://127.0.0.1:{process.detail['port']}", told.get("pid"))

    def logs(self, lines: int = 40) -> str:
        """The last lines that it printed, over all its starts."""
        return tail(self.folder / "log.txt", lines)

    def stop(self) -> None:
        """End it with all its processes, whoever uses it; nothing happens when there is none."""
        if self._process() is None:
            return
        with locked(self.folder):
            self._clear()

    def _join(self, process: ManagedProcess, settings: Mapping[str, Any]) -> None:
        if not process.here:
            raise BackgroundError(
                f"the vLLM server of {self.folder} runs on host {process.host}, and listens there only; stop it there"
            )
        runs = process.detail["settings"]
        other = [f"{key}: {runs[key]!r}, not {settings[key]!r}" for key in settings if runs[key] != settings[key]]
        if other:
            raise BackgroundError(
                f"a vLLM server with other settings runs in {self.folder} ({'; '.join(other)}): end it with stop()"
            )
        self._own(read_json(self.folder / OWNERS).get("owners", []))

    def _own(self, others: Sequence[Mapping[str, Any]]) -> None:
        """Name this process as one that the server is there for."""
        me = asdict(ManagedProcess(os.getpid(), psutil.Process().create_time(), socket.gethostname()))
        write_json(self.folder / OWNERS, {"owners": [*(owner for owner in others if owner != me), me]})

    def _launch(self, build: VllmBuild, settings: Mapping[str, Any]) -> None:
        log, port = self.folder / "log.txt", _free_port()
        ManagedProcess.launch(
            [
                *(sys.executable, "-c", _SUPERVISE, str(self.folder), str(port)),
                *_command(build, port, settings),
            ],
            self.folder,
            env=_environment(build, settings["model"]),
            cwd=self.folder,
            detail={
                "folder": str(self.folder),
                "port": port,
                "settings": dict(settings),
                "log_from": log.stat().st_size if log.exists() else 0,
            },
        )

    def _process(self) -> ManagedProcess | None:
        """The supervisor. A folder that was copied or moved names that of the old one, which is not ours."""
        process = ManagedProcess.read(self.folder)
        return process if process is not None and process.detail["folder"] == str(self.folder) else None

    def _clear(self) -> None:
        """End what runs here, and forget it."""
        process = self._process()
        if process is not None:
            process.end(patience=TERM_SECONDS + 5)
            sweep(process.pid, self.folder)
        for name in ("process.json", STATE, OWNERS):
            (self.folder / name).unlink(missing_ok=True)

    def _last_words(self) -> str:
        """Of this start: the first error, which is the cause of those after it, and the last lines."""
        process = self._process()
        begin = process.detail["log_from"] if process is not None else 0
        said = (self.folder / "log.txt").read_bytes()[begin:].decode(errors="replace").splitlines()
        lines = [line for line in said if not line.startswith(_NOISE)]
        first = next((line for line in lines if "Error: " in line and "WARNING" not in line), None)
        last = lines[-_LAST_WORDS:]
        return "\n".join(last if first is None or first in last else [first, "...", *last])


def _settings(
    model: str | Path, config: EngineConfig, lora_rank: int | None, dtype: str, served_name: str
) -> dict[str, Any]:
    """What two servers have to share to be the same one."""
    if config.url is not None:
        raise ConfigError(f"engine.url names a server that runs already ({config.url}): none is to be started")
    # vLLM reads --max_model_len as --max-model-len
    taken = [word for word in config.arguments if word.partition("=")[0].replace("_", "-") in _OURS]
    if taken:
        raise ConfigError(f"engine.arguments must not hold {', '.join(taken)}: the run sets this itself")
    if lora_rank is not None and lora_rank > LORA_RANKS[-1]:
        raise ConfigError(f"policy.lora.rank is {lora_rank}, and vLLM serves at most {LORA_RANKS[-1]}")
    return {
        "model": _model(model),
        "served_name": served_name,
        "lora_rank": lora_rank and next(rank for rank in LORA_RANKS if rank >= lora_rank),
        "dtype": dtype,
        "python": interpreter(config.python),
        "max_model_len": config.max_model_len,
        "gpu_memory": config.gpu_memory,
        "sleep": config.sleep,
        "arguments": list(config.arguments),
    }


def _model(model: str | Path) -> str:
    """An absolute folder, or a hub name. Raises BackgroundError for a path without a model."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise BackgroundError(f"{path} holds no config.json: it is not a model folder")
        if not any(file.suffix in _WEIGHTS for file in path.iterdir()):
            raise BackgroundError(f"{path} holds no weights ({', '.join(_WEIGHTS)}): was the model saved there?")
        return str(path.resolve())
    if isinstance(model, Path) or model.startswith(("/", ".", "~")):
        raise BackgroundError(f"there is no model folder {path}")
    return model


def _command(build: VllmBuild, port: int, settings: Mapping[str, Any]) -> list[str]:
    # Not the command "vllm": that of the CPU build looks up its version under another name and fails.
    command = [build.python, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--model", settings["model"], "--served-model-name", settings["served_name"]]
    command += ["--dtype", settings["dtype"], "--max-model-len", str(settings["max_model_len"])]
    # Log-probabilities at the temperature of sampling, and no sampling defaults that come with a model.
    command += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    command += ["--disable-uvicorn-access-log"]
    if settings["lora_rank"] is not None:
        command += ["--enable-lora", "--max-lora-rank", str(settings["lora_rank"])]
        command += ["--max-loras", str(MAX_LORAS), "--max-cpu-loras", str(MAX_KEPT_LORAS)]
    if build.cpu:  # a seeded request whose prompt is read in parts kills it: CPU generators cannot be rewound
        command += ["--no-enable-chunked-prefill"]
    else:
        command += ["--gpu-memory-utilization", str(settings["gpu_memory"])]
    if settings["sleep"]:
        command += ["--enable-sleep-mode"]
    return [*command, *settings["arguments"]]


def _environment(build: VllmBuild, model: str) -> dict[str, str]:
    """This process' environment without secrets, and what the server reads from there."""
    local = Path(model).is_absolute()
    env = {
        name: value
        for name, value in os.environ.items()
        if not _SECRET_WORDS & set(name.upper().split("_")) or (name == "HF_TOKEN" and not local)
    }
    # Without bytecode each of its three processes compiles all of torch and vLLM at every start.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env |= {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_NO_USAGE_STATS": "1"}
    env["VLLM_SERVER_DEV_MODE"] = "1"  # sleep and wake are behind it; nobody but this machine can ask
    if build.cpu:
        env.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")  # GiB
    if local:
        env["HF_HUB_OFFLINE"] = "1"
    return env


def _free_port() -> int:
    for port in random.Random().sample(_PORTS, 50):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise BackgroundError(f"no free port on 127.0.0.1 between {_PORTS.start} and {_PORTS.stop}")
