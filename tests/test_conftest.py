"""The guards of conftest.py hold."""

import socket

import pytest


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
