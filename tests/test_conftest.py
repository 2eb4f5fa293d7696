"""The guards of conftest.py hold."""

import socket
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80), ("example.invalid", 80)])
def test_other_machines_are_out_of_reach(address: tuple[str, int]) -> None:
    with pytest.raises(RuntimeError, match="offline"):
        socket.create_connection(address, timeout=0.1)


def test_this_machine_is_in_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


def test_torch_runs_on_one_thread() -> None:
    import torch

    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("marker", "remedy"),
    [
        ("browser", "apt-get install chromium"),
        ("vllm", "make test-vllm"),
        ("appworld", "coevolve-lab install appworld"),
        ("minilm", "coevolve-lab install minilm"),
    ],
)
def test_what_is_missing_is_an_error_where_it_is_required(marker: str, remedy: str, pytester: pytest.Pytester) -> None:
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makepyfile(f"import pytest\n\n\n@pytest.mark.{marker}\ndef test_it(): ...\n")
    pytester.makeini(f"[pytest]\nmarkers = {marker}: x\n")
    required = f"COEVOLVE_REQUIRE_{marker.upper()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        patch.setenv("COEVOLVE_VLLM_PYTHON", "/no-such-python")
        patch.setenv("COEVOLVE_APPWORLD_HOME", "/no-such-home")
        patch.setenv("COEVOLVE_MINILM_HOME", "/no-such-home")
        for name in ("BROWSER_PATH", required):
            patch.delenv(name, raising=False)
        skipped = pytester.runpytest_inprocess("-p", "no:xdist", "-p", "no:timeout")
        patch.setenv(required, "1")
        refused = pytester.runpytest_inprocess("-p", "no:xdist", "-p", "no:timeout")
    skipped.assert_outcomes(skipped=1)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert remedy in refused.stderr.str()
