"""What the worker does with the IPython shell that it runs in. Where there is none, nothing happens."""

from __future__ import annotations

from typing import Any


def show(bundle: dict[str, Any]) -> None:
    """Publish content by media type to whoever is connected."""
    if (shell := _shell()) is not None:
        shell.display_pub.publish(data=bundle)


def end_kernel() -> None:
    """End the kernel once the reply to this cell is out."""
    if (shell := _shell()) is not None:
        shell.keepkernel_on_exit = None
        shell.ask_exit()


def keep_kernel_on_exit() -> None:
    """Make ``exit`` and ``quit``, typed by a visitor, close the visitor's console and not the run."""
    from IPython.core.autocall import ExitAutocall

    shell = _shell()

    class Leave(ExitAutocall):
        def __call__(self) -> None:
            shell.keepkernel_on_exit = True
            shell.ask_exit()

    if shell is not None:
        shell.user_ns["exit"] = shell.user_ns["quit"] = Leave(shell)


def _shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell.instance() if InteractiveShell.initialized() else None
    return shell
