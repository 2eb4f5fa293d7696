"""Training: GRPO's loss, trajectories packed into tensors, the trainer, and supervised steps for a warm start."""

from coevolve_lab.training.grpo import group_advantages, grpo_loss
from coevolve_lab.training.supervised import supervised_steps
from coevolve_lab.training.trainer import Trainer

__all__ = ["Trainer", "group_advantages", "grpo_loss", "supervised_steps"]
