"""The command ``coevolve-lab``: every subcommand is one call of the library.

Exit codes: 0 done; 1 something that runs need is missing (doctor); 2 an error that the message explains; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from coevolve_lab.cli.arguments import parser
from coevolve_lab.cli.assignments import settings
from coevolve_lab.cli.commands import DEMO_CONFIG, PROGRAM
from coevolve_lab.errors import CoEvolveError, ConfigError

__all__ = ["DEMO_CONFIG", "main", "parser", "settings"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Argument errors exit with 2, as argparse does."""
    args = parser().parse_args(arguments)
    try:
        _load(getattr(args, "imports", []))
        return args.command(args) or 0
    except CoEvolveError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: interrupted; committed rounds are kept. {_how_to_go_on(args)}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `... | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:  # nothing that somebody typed
            raise
        print(f"{PROGRAM}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _load(imports: Sequence[str]) -> None:
    if not imports:
        return
    from coevolve_lab.background.worker import load

    try:
        load(imports)
    except ImportError as error:
        raise ConfigError(f"--import: {error}. A file that is not installed is named with its .py") from error


def _how_to_go_on(args: argparse.Namespace) -> str:
    command = getattr(args, "go_on", None) or f"{PROGRAM} {args.name} with the same arguments"
    return f"Go on with: {command}"
