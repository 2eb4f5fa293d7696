"""A JupyterLab of its own in a headless Chromium, for tests and for docs/screenshots.py.

>>> with browser_lab(folder) as lab:
...     page = lab.open("x.ipynb", dark=False)
...     run_all(page)
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat

CHROMIUM = os.environ.get("BROWSER_PATH") or shutil.which("chromium") or shutil.which("google-chrome") or ""
_CHROMIUM_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
_READY = """() => {
  const w = window.jupyterapp && window.jupyterapp.shell.currentWidget;
  if (!w || !w.context || !w.context.isReady || !w.sessionContext.isReady) return false;
  const s = w.sessionContext.session;
  return !!(s && s.kernel && s.kernel.connectionStatus === 'connected' && s.kernel.status === 'idle');
}"""
ROOT = Path(__file__).resolve().parents[2]


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """A notebook of code cells."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    nbformat.write(made, path)


class Lab:
    """A running JupyterLab and browser."""

    def __init__(self, url: str, browser: Any) -> None:
        self._url, self._browser = url, browser

    def open(self, notebook: str, width: int = 1280, height: int = 1400, dark: bool = False) -> Any:
        """A page with the notebook, its kernel connected and idle."""
        page = self._browser.new_page(viewport={"width": width, "height": height})
        page.goto(f"{self._url}/lab/tree/{notebook}?reset")
        page.wait_for_function(_READY, timeout=60_000)
        if dark:
            page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
        page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
        return page


def run_all(page: Any) -> None:
    """Run all cells; wait for what they show, not for idle: live widgets keep the kernel flickering."""
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")


@contextmanager
def browser_lab(folder: Path, **environment: str) -> Iterator[Lab]:
    """Serve ``folder``, with settings, kernels and workspaces of its own, and open a browser on it."""
    from playwright.sync_api import sync_playwright

    home = folder / ".lab"
    settings = home / "settings" / "@jupyterlab"
    (settings / "apputils-extension").mkdir(parents=True)
    (settings / "notebook-extension").mkdir()
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "apputils-extension" / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    tracker = {"windowingMode": "none", "autoStartDefaultKernel": True}
    (settings / "notebook-extension" / "tracker.jupyterlab-settings").write_text(json.dumps(tracker))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {
        "JUPYTER_CONFIG_DIR": home / "config", "JUPYTER_RUNTIME_DIR": home / "runtime", "IPYTHONDIR": home / "ipython",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings", "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "PYTHONPATH": ROOT,
    }  # fmt: skip
    command = [
        sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=",
        f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    log = (folder / "lab.log").open("wb")
    variables = {**os.environ, **{name: str(value) for name, value in own.items()}, **environment}
    server = subprocess.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT)
    try:
        _until_up(url, server, folder / "lab.log")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_CHROMIUM_FLAGS)
            try:
                yield Lab(url, browser)
            finally:
                browser.close()
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


def _until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/api", timeout=2).read()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not come up:\n{log.read_text()[-2000:]}")
