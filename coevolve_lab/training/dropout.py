"""Dropout has no place in policy gradients: what is trained must be what sampled."""

from __future__ import annotations

import torch


def switch_off_dropout(model: torch.nn.Module) -> None:
    """Set every dropout of a model to 0, attention's own included, for good."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):  # of attention by SDPA, which is no module
            setattr(module, "attention_dropout", 0.0)  # noqa: B010 (a Module's attributes have no types)
