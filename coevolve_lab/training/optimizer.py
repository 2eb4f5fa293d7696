"""The one AdamW of a trainer: clipped gradients, a warm-up, and float32 weights behind those that are rounded."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from coevolve_lab.config import TrainingConfig
from coevolve_lab.errors import PolicyError


class Optimizer:
    """AdamW over all parameters, constant learning rate after ``warmup_steps`` (section 3.1, table 9).

    Parameters of less than 32 bits are trained as float32 copies: a bfloat16 weight of 0.02 moves in steps of 1e-4,
    and AdamW's first steps are as long as the learning rate, 1e-6, so that hardly any would ever move. The copies take
    over each gradient as soon as it is there, so micro-batches add up in float32 too, and hand their values back
    rounded.
    """

    def __init__(self, parameters: Iterable[Tensor], config: TrainingConfig) -> None:
        given = list(parameters)
        self.config = config
        self.updates = 0
        self._rounded = [(p, p.detach().float().requires_grad_()) for p in given if p.dtype != torch.float32]
        exact = {id(p): whole for p, whole in self._rounded}
        self._given = given
        self._parameters = [exact.get(id(p), p) for p in given]
        for parameter, whole in self._rounded:
            hook = parameter.register_post_accumulate_grad_hook(_hand_over(whole))
            weakref.finalize(self, hook.remove)  # the model may get another trainer
        self._adamw = torch.optim.AdamW(
            self._parameters, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay
        )

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in (*self._given, *self._parameters):
            parameter.grad = None

    def rate(self) -> float:
        """Of the next step: constant after a linear warm-up."""
        warmup = self.config.warmup_steps
        return self.config.learning_rate * min(1.0, (self.updates + 1) / warmup if warmup else 1.0)

    def step(self) -> float:
        """Clip the gradient and take one step with it; returns its norm before clipping.

        Raises PolicyError when that is not finite; then nothing was changed.
        """
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, self.config.gradient_clip))
        if not math.isfinite(norm):
            raise PolicyError(
                f"the gradient norm is {norm}: nothing was changed. Look for log-probabilities that are not finite, "
                "or lower the learning rate"
            )
        for group in self._adamw.param_groups:
            group["lr"] = self.rate()
        self._adamw.step()
        with torch.no_grad():
            for parameter, whole in self._rounded:
                parameter.copy_(whole)
        self.updates += 1
        return norm

    def state_dict(self) -> dict[str, Any]:
        """AdamW's state, the float32 copies and the counter."""
        whole = [copied.detach() for _, copied in self._rounded]
        return {"optimizer": self._adamw.state_dict(), "float32": whole, "updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back ``state_dict``'s output, beside weights that the model took back already.

        Settings are those that the optimizer has now: a fork may go on with others than it began with. Where a
        checkpoint has no float32 copies, of another dtype or an older version, the model's own values are taken.
        """
        self._adamw.load_state_dict(copy.deepcopy(state["optimizer"]))
        for group in self._adamw.param_groups:
            group["betas"], group["weight_decay"] = self.config.betas, self.config.weight_decay
        kept = state.get("float32", [])
        values = kept if len(kept) == len(self._rounded) else [parameter for parameter, _ in self._rounded]
        with torch.no_grad():
            for (_, whole), value in zip(self._rounded, values, strict=True):
                whole.copy_(value)
        self.updates = int(state["updates"])


def _hand_over(whole: Tensor) -> Any:
    """A hook that adds a parameter's gradient to that of its float32 copy."""

    def hand_over(parameter: Tensor) -> None:
        assert parameter.grad is not None
        gradient = parameter.grad.float()
        whole.grad = gradient if whole.grad is None else whole.grad.add_(gradient)
        parameter.grad = None

    return hand_over
