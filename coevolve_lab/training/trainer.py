"""One training step: trajectories in, one optimizer step, and an Update record that says what it did.

``Trainer.step`` is GRPO's, ``Trainer.imitate`` that of filtered imitation; everything but the gradient is the same.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from coevolve_lab.config import TrainingConfig
from coevolve_lab.errors import PolicyError
from coevolve_lab.records import Trajectory, Update
from coevolve_lab.training.batch import Batch, select, worth_imitating
from coevolve_lab.training.correction import importance_weights
from coevolve_lab.training.dropout import switch_off_dropout
from coevolve_lab.training.grpo import group_advantages, k3, token_loss, token_weights
from coevolve_lab.training.imitation import backward_likelihood
from coevolve_lab.training.optimizer import Optimizer
from coevolve_lab.training.packing import MicroBatch, check_packing, pack, to_sequence, token_logprobs
from coevolve_lab.training.reference import Reference

_MEANS = ("kl", "clip_fraction", "entropy", "logprob_gap", "capped_fraction")  # over the trained tokens


class Trainer:
    """Trains a Hugging Face causal LM, whole or through its peft adapter (section 3.1, equation 1).

    The reference policy is the model as it is given here (``Reference``); with ``kl_coef`` 0 there is none. One AdamW
    over all trainable parameters (``Optimizer``). Dropout is switched off, in the model too: log-probabilities would
    not be those that were sampled with, nor twice the same. max_staleness: versions that a trajectory may be behind the
    policy; None: any number. Raises PolicyError when the model cannot be trained on packed rows or has nothing to
    train.
    """

    def __init__(
        self,
        model: Any,
        config: TrainingConfig,
        temperature: float,
        group_size: int,
        max_staleness: int | None = None,
    ) -> None:
        self.model = model
        self.config = config
        self.temperature = temperature
        self.group_size = group_size
        self.max_staleness = max_staleness
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        if not self._parameters:
            raise PolicyError("the model has no trainable parameters; give it an adapter (policy.lora) or unfreeze it")
        switch_off_dropout(model)
        check_packing(model)
        self.optimizer = Optimizer(self._parameters, config)
        self._alarmed: int | None = None  # round of the last warning about the gap
        self._reference = Reference(model) if config.kl_coef > 0 else None

    def step(
        self,
        trajectories: Sequence[Trajectory],
        step: int,
        round: int,
        policy_version: int,
        before_change: Callable[[], object] = lambda: None,
    ) -> Update:
        """One optimizer step on the groups that carry a gradient; none if no group does. Returns the Update.

        The loss is ``grpo_loss`` on exactly the trained groups: broken, partial and zero-variance groups enter neither
        the sum nor the denominators, so the latter lose their share of the KL term too. In the Update, ``groups``
        counts all groups given; those trained are groups - all_failed - all_solved - dropped. loss, kl, clip_fraction
        and logprob_gap (mean |trainer's - sampled log-probability|) are those before the update; kl, clip_fraction,
        entropy and logprob_gap are means over the trained tokens. A step that trains nothing measures nothing: 0.

        policy_version: the one that this update makes, so that trajectories of the version before are 0 behind. Those
        that are more than ``max_staleness`` behind are left out before anything else, counted as ``stale`` and warned
        about.

        A logprob_gap above ``gap_alarm`` is warned about once a round, but not where a trained trajectory is behind:
        the gap then holds the updates between as well, and says nothing of the sampler alone. With ``importance``
        "token" or "sequence" the ratio is against the trainer's own log-probabilities, so exactly 1 in the one update
        of a step and never clipped, and capped_fraction says how many tokens' importance weights the cap cut.

        All gradients are summed before the one change to the model, so whatever is raised earlier, KeyboardInterrupt
        included, leaves model and optimizer as they were; before_change is called when that change begins. Raises
        PolicyError on a trajectory sampled at another temperature, without its ids and log-probabilities, or when the
        gradient is not finite.
        """
        started = time.perf_counter()
        for trajectory in trajectories:
            if trajectory.temperature != self.temperature:
                raise PolicyError(
                    f"trajectory {trajectory.id} was sampled at temperature {trajectory.temperature}, but the trainer "
                    f"scores at {self.temperature}: ratios would be wrong"
                )
        fresh = self._fresh(trajectories, policy_version - 1)
        batch = select(fresh, self.group_size, self.config.on_partial_group)
        behind = max((0, *(policy_version - 1 - t.policy_version for t in batch.trained)))
        update = self._learn(batch, self.backward, before_change, step, round, policy_version, behind)
        seconds, stale = time.perf_counter() - started, len(trajectories) - len(fresh)
        return replace(update, trajectories=len(trajectories), seconds=seconds, stale=stale)

    def imitate(
        self,
        trajectories: Sequence[Trajectory],
        step: int,
        round: int,
        policy_version: int,
        above: float = 0.0,
        before_change: Callable[[], object] = lambda: None,
    ) -> Update:
        """One optimizer step of plain log-likelihood on the trajectories that score more than ``above``.

        The loss is the mean negative log-likelihood of their action tokens, exactly as sampled, at temperature 1:
        no advantage, no ratio, no reference (Gulcehre et al. 2023, arXiv:2308.08998). The Update is as ``step``'s;
        kl, clip_fraction and the gaps are 0, since nothing of the kind is measured, and a group of which no trajectory
        is above counts as all failed. No step is taken when that holds for all groups.

        Trajectories may come from any version and any temperature. Whatever is raised leaves model and optimizer as
        they were. Raises PolicyError when one lacks its ids, or when the gradient is not finite.
        """
        started = time.perf_counter()
        batch = worth_imitating(trajectories, above)
        update = self._learn(batch, self._backward_likelihood, before_change, step, round, policy_version)
        return replace(update, trajectories=len(trajectories), seconds=time.perf_counter() - started)

    def backward(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Leave the gradient of ``grpo_loss`` on these trajectories in the parameters' ``.grad`` (of those that are not
        float32, in the optimizer's copies); no group is left out.

        The gradient does not depend on how they are split into micro-batches. Returns the loss, the number of tokens,
        per-token means of kl, clip_fraction, entropy, logprob_gap and capped_fraction, and the gap_largest of a token.
        """
        sequences = [to_sequence(t) for t in trajectories]
        device = self._parameters[0].device
        owner = torch.repeat_interleave(torch.arange(len(sequences)), torch.tensor([len(s.sampled) for s in sequences]))
        groups = [t.group_id for t in trajectories]
        sampled = torch.tensor([p for t in trajectories for s in t.steps for p in s.logprobs], dtype=torch.float32)
        advantage = group_advantages([t.score for t in trajectories], groups, self.config.advantage_eps).float()[owner]
        # Each token is a row of its own here: equation 1's denominators over the whole batch, for any split of it.
        weight = token_weights(torch.ones(len(owner), 1), [groups[i] for i in owner.tolist()], self.config.normalize)
        flat = torch.stack([sampled, advantage, weight.squeeze(-1)]).to(device)
        owner = owner.to(device)
        sums: Counter[str] = Counter()
        largest = 0.0
        with self._gradient():
            for micro in pack(sequences, self.config.tokens_per_microbatch):
                on_device = micro.to(device)
                sampled, advantages, weights = flat[:, on_device.token]
                part = self._accumulate(on_device, sampled, advantages, weights, owner[on_device.token])
                largest = max(largest, part.pop("gap_largest"))
                sums.update(part)
        tokens = len(owner)
        means = {name: sums[name] / max(1, tokens) for name in _MEANS}
        return {"loss": sums["loss"], "tokens": float(tokens), "gap_largest": largest, **means}

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's. A resumed run also needs weights: the first, for the reference, and the last."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back ``state_dict``'s output, once the model has the weights that belong to it."""
        self.optimizer.load_state_dict(state)

    def _backward_likelihood(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        with self._gradient():
            return backward_likelihood(self.model, trajectories, self.config.tokens_per_microbatch)

    @contextlib.contextmanager
    def _gradient(self) -> Iterator[None]:
        """A fresh gradient of the model as it trains."""
        self.optimizer.zero_grad()
        was_training = self.model.training
        self.model.train()
        try:
            yield
        finally:
            self.model.train(was_training)

    def _learn(
        self,
        batch: Batch,
        backward: Callable[[Sequence[Trajectory]], dict[str, float]],
        before_change: Callable[[], object],
        step: int,
        round: int,
        policy_version: int,
        behind: int = 0,
    ) -> Update:
        """One optimizer step with the gradient that ``backward`` leaves; none if nothing is to be trained on."""
        if batch.dropped == batch.groups > 0:
            warnings.warn(
                f"step {step}: none of {batch.groups} groups can be trained on: environment or engine broke in each",
                stacklevel=3,
            )
        measured = dict.fromkeys(("loss", *_MEANS, "gap_largest", "tokens"), 0.0)
        norm = rate = 0.0
        if batch.trained:
            rate = self.optimizer.rate()
            try:
                measured |= backward(batch.trained)
                if not behind:
                    self._look_at_gap(measured, step, round)
                before_change()
                norm = self.optimizer.step()
            finally:
                self.optimizer.zero_grad()
        tokens = int(measured.pop("tokens"))
        return Update(
            step=step,
            round=round,
            policy_version=policy_version,
            reward=batch.reward,
            **measured,
            gradient_norm=norm,
            learning_rate=rate,
            groups=batch.groups,
            groups_all_failed=batch.all_failed,
            groups_all_solved=batch.all_solved,
            groups_dropped=batch.dropped,
            trajectories=len(batch.trained),
            action_tokens=batch.action_tokens,
            trained_tokens=tokens,
            seconds=0.0,
            staleness_largest=behind,
            stale=0,
        )

    def _accumulate(
        self, micro: MicroBatch, sampled: Tensor, advantages: Tensor, weights: Tensor, owner: Tensor
    ) -> dict[str, float]:
        """Add one micro-batch's gradient; returns its sums over tokens, its share of the loss and its gap_largest."""
        config = self.config
        reference = None
        if self._reference is not None:
            with torch.no_grad(), self._reference.model() as model:
                reference, _ = token_logprobs(model, micro, self.temperature)
        logp, entropy = token_logprobs(self.model, micro, self.temperature)
        old, importance, capped = sampled, None, torch.zeros_like(sampled, dtype=torch.bool)
        if config.importance != "off":
            # There is one update a step, so these are pi_old too; and a row holds whole trajectories, so a micro-batch
            # has all tokens of each of its own.
            old = logp.detach()
            importance, capped = importance_weights(old, sampled, owner, config.importance, config.importance_cap)
        per_token = token_loss(
            logp, old, reference, advantages, config.clip_low, config.clip_high, config.kl_coef, importance
        )
        loss = (per_token * weights).sum()
        loss.backward()
        with torch.no_grad():
            ratio = torch.exp(logp - old)
            too_high = (advantages > 0) & (ratio > 1 + config.clip_high)
            too_low = (advantages < 0) & (ratio < 1 - config.clip_low)
            return {
                "loss": float(loss),
                "kl": 0.0 if reference is None else float(k3(logp, reference).sum()),
                "clip_fraction": float((too_high | too_low).sum()),
                "entropy": float(entropy.sum()),
                "logprob_gap": float((logp - sampled).abs().sum()),
                "gap_largest": float((logp - sampled).abs().max()),
                "capped_fraction": float(capped.sum()),
            }

    def _fresh(self, trajectories: Sequence[Trajectory], version: int) -> Sequence[Trajectory]:
        """Those that may still train a policy of ``version``."""
        if self.max_staleness is None:
            return trajectories
        fresh = [t for t in trajectories if version - t.policy_version <= self.max_staleness]
        if len(fresh) < len(trajectories):
            warnings.warn(
                f"{len(trajectories) - len(fresh)} of {len(trajectories)} trajectories are not trained: version "
                f"{min(t.policy_version for t in trajectories)} sampled some of them, the policy is version {version}, "
                f"and rollout.max_staleness is {self.max_staleness}; roll out again",
                stacklevel=3,
            )
        return fresh

    def _look_at_gap(self, measured: Mapping[str, float], step: int, round: int) -> None:
        """Warn, once a round, that what was sampled is not what is trained."""
        if not measured["logprob_gap"] > self.config.gap_alarm or round == self._alarmed:
            return
        self._alarmed = round
        warnings.warn(
            f"step {step}: sampler and trainer differ by {measured['logprob_gap']:.3g} nats a token (at most "
            f"{measured['gap_largest']:.3g}; training.gap_alarm is {self.config.gap_alarm:g}): look whether the "
            "sampler has this version's weights, temperature and precision; a gap that stays can be corrected for "
            "with training.importance: token",
            stacklevel=4,
        )
