"""Environments by name, a user's own among them."""

from __future__ import annotations

import pytest

from coevolve_lab.environments import make, register_environment
from coevolve_lab.errors import ConfigError
from tests.evolution.toy_world import ToyWorld


def test_a_registered_environment_is_made_with_its_options() -> None:
    register_environment("registry-toy", ToyWorld)
    made = make("registry-toy", size=3)
    assert isinstance(made, ToyWorld)
    assert len(made.tasks("explore")) == 3


def test_the_latest_registration_counts() -> None:
    class Other(ToyWorld):
        pass

    register_environment("registry-twice", ToyWorld)
    register_environment("registry-twice", Other)
    assert isinstance(make("registry-twice"), Other)


def test_unknown_names_options_and_taken_names_are_explained() -> None:
    register_environment("registry-toy", ToyWorld)
    with pytest.raises(ConfigError, match=r"is called 'alfworld'; there is bfcl, appworld.*registry-toy"):
        make("alfworld")
    with pytest.raises(ConfigError, match="has no option 'length'; it has size"):
        make("registry-toy", length=3)
    with pytest.raises(ConfigError, match="'bfcl' is an environment that comes with"):
        register_environment("bfcl", ToyWorld)
