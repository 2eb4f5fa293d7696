"""The frozen reference policy, against which equation 1 takes the KL divergence of the policy that is trained."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any


class Reference:
    """A model as it is given here: a peft model with its adapter switched off, of any other a frozen copy."""

    def __init__(self, model: Any) -> None:
        self._adapted = model if hasattr(model, "disable_adapter") else None
        self._copy = copy.deepcopy(model).eval().requires_grad_(False) if self._adapted is None else None

    @contextlib.contextmanager
    def model(self) -> Iterator[Any]:
        """The reference as a model, without dropout; a peft model is the reference only until this ends."""
        if self._adapted is None:
            yield self._copy
            return
        training = self._adapted.training
        self._adapted.eval()
        try:
            with self._adapted.disable_adapter():
                yield self._adapted
        finally:
            self._adapted.train(training)
