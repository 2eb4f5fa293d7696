"""Looks at this machine: what is here, what is missing, and the command that brings it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import urllib.request
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from coevolve_lab.background.vllm_build import find_vllm, install_command
from coevolve_lab.config import Config, EndpointConfig, EngineConfig, PolicyConfig
from coevolve_lab.cores import available_threads, usable_cores
from coevolve_lab.environments.appworld import package as appworld
from coevolve_lab.environments.appworld.server import missing_walls
from coevolve_lab.environments.bfcl import package
from coevolve_lab.errors import ConfigError, EnvironmentFailure, PrerequisiteError
from coevolve_lab.estimate import estimate_memory

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
GIB = 1 << 30


@dataclass(frozen=True)
class Finding:
    """remedy: the command that mends it, "" when there is nothing to mend. needed: the default run, or that of the
    config in question, fails without it."""

    name: str
    found: str
    remedy: str = ""
    needed: bool = True


def examine(config: Config | None = None) -> list[Finding]:
    """One finding per thing that runs depend on: any run, or one with this config. Imports torch.

    Of keys it says whether they are set, never what they are.
    """
    engine = config.engine if config is not None else EngineConfig()
    findings = [_python(), _torch(), _threads(config), *_packages(), _bfcl(), *_appworld(config)]
    findings += [_chromium(), _loopback()]
    findings.append(_joined(engine.url) if engine.kind == "vllm" and engine.url else _vllm(engine))
    if config is not None and config.policy.model != "tiny":
        findings.append(_model(config.policy))
        if config.policy.device != "cpu" and (gpu := _gpu()) is not None:
            findings.append(_room(config, *gpu))
    return [*findings, *_keys(config)]


def _python() -> Finding:
    old = sys.version_info < (3, 11)
    return Finding("python", f"{platform.python_version()} in {sys.prefix}", "install Python 3.11 or newer" * old)


def _torch() -> Finding:
    try:
        import torch
    except ImportError as error:
        return Finding("torch", f"cannot be imported ({error})", "pip install 'coevolve-lab[cpu]'")
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    shown = ", ".join(f"{device.name} ({device.total_memory / GIB:.0f} GiB)" for device in devices)
    return Finding("torch", f"{torch.__version__}, runs on {shown or 'the CPU: it finds no CUDA device'}")


def _threads(config: Config | None) -> Finding:
    cores, threads = usable_cores(), available_threads(config.threads if config is not None else None)
    set_to = os.environ.get("OMP_NUM_THREADS")
    note = f"{threads} for torch, {cores} cores for this process" + (f", OMP_NUM_THREADS={set_to}" if set_to else "")
    return Finding("threads", note, f"threads: {cores} in the config" * (threads > cores), needed=False)


def _packages() -> list[Finding]:
    extras = {
        "transformers": "cpu",
        "peft": "cpu",
        "plotly": "notebook",
        "kaleido": "notebook",
        "jupyterlab": "notebook",
    }
    findings = []
    for name, extra in extras.items():
        try:
            findings.append(Finding(name, version(name), needed=extra == "cpu"))
        except PackageNotFoundError:
            remedy = f"pip install 'coevolve-lab[{extra}]'"
            findings.append(Finding(name, "missing", remedy, needed=extra == "cpu"))
    return findings


def _bfcl() -> Finding:
    folder = package.home()
    if package.is_installed():
        return Finding("bfcl", f"in {folder}")
    return Finding("bfcl", f"not in {folder}", package.INSTALL_COMMAND)


def _appworld(config: Config | None) -> list[Finding]:
    """The package with its mini world, and the benchmark's own data; most runs do without both."""
    needed = config is not None and config.environment.name == "appworld"
    real = needed and config is not None and config.environment.options.get("world") == "real"
    try:
        found = appworld.find()
    except PrerequisiteError as error:
        return [Finding("appworld", str(error), appworld.INSTALL_COMMAND, needed)]
    findings = [Finding("appworld", f"in {appworld.home()}, with its mini world", needed=needed)]
    try:
        lacking = "; ".join(missing_walls(found).values())
    except EnvironmentFailure as error:
        return [Finding("appworld", str(error), f"delete {appworld.home()}, then: {appworld.INSTALL_COMMAND}", needed)]
    remedy = "use a newer kernel, or a container that allows seccomp and Landlock" if lacking else ""
    findings.append(Finding("its walls", lacking or "agents' code can be locked in", remedy, needed))
    if appworld.has_real_data(found):
        return [*findings, Finding("appworld data", f"in {found.real_root}", needed=real)]
    missing = f"not in {found.real_root}: only the mini world can be played"
    return [*findings, Finding("appworld data", missing, appworld.DOWNLOAD_COMMAND, real)]


def _chromium() -> Finding:
    found = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found:
        return Finding("chromium", found, needed=False)
    return Finding("chromium", "missing: figures are written as HTML only", "apt-get install chromium", needed=False)


def _loopback() -> Finding:
    """Servers and kernels listen there."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            return Finding("loopback", f"127.0.0.1 has free ports, such as {server.getsockname()[1]}")
    except OSError as error:
        return Finding("loopback", f"nothing can listen on 127.0.0.1 ({error.strerror})", "ip link set lo up")


def _vllm(engine: EngineConfig) -> Finding:
    needed = engine.kind == "vllm"
    try:
        build = find_vllm(engine.python)
    except PrerequisiteError as error:
        found = str(error) if engine.python else f"not in {sys.executable}: rollouts run in this process"
        return Finding("vllm", found, install_command(engine.python), needed)
    return Finding("vllm", f"{build.version} in {build.python}" + ", for the CPU" * build.cpu, needed=needed)


def _joined(url: str) -> Finding:
    """The server that the config names."""
    health = f"{url.rstrip('/')}/health"
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(health, timeout=5):
            return Finding("vllm", f"a server answers at {url}")
    except (OSError, ValueError) as error:
        return Finding("vllm", f"no server answers at {url} ({error})", "start it, or set engine.url to null")


def _model(policy: PolicyConfig) -> Finding:
    """A folder, or what was downloaded before; a hub's model is downloaded when it is first used."""
    if policy.model == "smollm2":
        from coevolve_lab.policy.smollm2 import INSTALL_COMMAND, find_gguf

        try:
            return Finding("model", f"smollm2, from {find_gguf()}")
        except PrerequisiteError as error:
            return Finding("model", str(error), INSTALL_COMMAND)
    if (folder := Path(policy.model).expanduser()).is_dir():
        return Finding("model", f"folder {folder}")
    from transformers.utils import cached_file

    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    try:
        known = cached_file(policy.model, "config.json", revision=policy.revision, local_files_only=True, **quiet)
    except (OSError, ValueError) as error:  # not a name that a hub could have
        return Finding("model", f"no folder and no hub name: {policy.model} ({error})", "set policy.model to another")
    weights = (
        [path for path in Path(known).parent.iterdir() if path.suffix in (".safetensors", ".gguf")] if known else []
    )
    if weights:
        size = sum(path.stat().st_size for path in weights) / GIB
        return Finding("model", f"{policy.model} in the cache ({size:.1f} GiB)")
    revision = f" --revision {policy.revision}" if policy.revision else ""
    found = f"{policy.model} is not in the cache: it is downloaded when a run first needs it"
    return Finding("model", found, f"hf download {policy.model}{revision}", needed=False)


def _gpu() -> tuple[str, int] | None:
    """Name and GiB of the first GPU that torch finds."""
    import torch

    if not torch.cuda.is_available():
        return None
    device = torch.cuda.get_device_properties(0)
    return device.name, round(device.total_memory / GIB)


def _room(config: Config, name: str, gib: float) -> Finding:
    """Whether a run with this config fits on such a GPU, by estimate."""
    try:
        rows = {row.name: row for row in estimate_memory(config, name, gib)}
    except ConfigError as error:
        return Finding("gpu memory", f"not estimated: {error}", needed=False)
    phases = {phase: rows[f"left while {phase}"] for phase in ("training", "sampling")}
    found = "by estimate " + " and ".join(f"{row.value} left while {phase}" for phase, row in phases.items())
    remedy = "python -m coevolve_lab.estimate CONFIG shows what takes it; docs/gpu.md"
    return Finding("gpu memory", found, remedy * any(row.low < 0 for row in phases.values()), needed=False)


def _keys(config: Config | None) -> list[Finding]:
    """One finding per variable that an explorer's endpoints take their key from."""
    explorer = config.evolution.explorer if config is not None else None
    if explorer is None or explorer.kind != "llm":
        endpoints = [EndpointConfig()] if config is None else []
    elif explorer.cassette is not None:
        endpoints = []
    else:
        endpoints = [explorer.endpoint(role) for role in ("reflect", "explore", "abstract", "judge")]
    needed: dict[str, bool] = {}
    for endpoint in endpoints:
        away = endpoint.base_url is None or urlsplit(endpoint.base_url).hostname not in LOCAL_HOSTS
        needed[endpoint.api_key_env] = needed.get(endpoint.api_key_env, False) or (away and config is not None)
    findings = []
    for name, must in needed.items():
        isset = bool(os.environ.get(name))
        found = f"{name} is set" if isset else f"{name} is not set: endpoints that ask for a key refuse"
        findings.append(Finding("api key", found, "" if isset else f"export {name}=...", must))
    return findings
