"""A run in a Jupyter kernel of its own: started and controlled from any process, the truth on disk.

Everything lies in ``RUN_DIR/background``:

    process.json     which process it is (process.py)
    log.txt          what it printed
    start.json       what it was started with, so that ``resume`` can start it again
    status.json      what it is doing, written by the worker at every stage, at most ten times a second
    pause, stop      requests: empty files that the worker takes away when it acts on them
    k*.json, k*-1..5 the kernel's connection file and sockets
"""

from coevolve_lab.background.handle import Background
from coevolve_lab.background.process import ManagedProcess
from coevolve_lab.background.status import PROGRESS, RunStatus

__all__ = ["PROGRESS", "Background", "ManagedProcess", "RunStatus"]
