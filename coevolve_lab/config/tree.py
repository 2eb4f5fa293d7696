"""The tree of settings that describes one run; defaults that the paper publishes are the paper's."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator


class Section(BaseModel):
    """A frozen part of the tree that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvironmentConfig(Section):
    name: str = "bfcl"
    options: dict[str, Any] = Field(default_factory=dict)  # passed to environments.make
    max_steps: int = Field(30, ge=1)  # interaction steps (table 9: 30 for AppWorld and BFCL)
    max_observation_chars: int = Field(4000, ge=16)  # longer replies are cut, with a note
    evaluation_split: str = "test"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``environments.make``."""
        return {"max_observation_chars": self.max_observation_chars, **self.options}


class WarmStartConfig(Section):
    """Supervised steps before the first round. Only the tiny policy has any: an LLM starts pretrained."""

    copy_steps: int = Field(0, ge=0)  # at most so many steps of copying random tokens, until it is learned
    steps: int = Field(0, ge=0)  # steps on demonstrations
    batch: int = Field(24, ge=1)
    learning_rate: float = Field(3e-3, gt=0)
    demonstrations: int = Field(8000, ge=1)
    max_calls: int = Field(2, ge=1)
    drills: float = Field(0.8, ge=0, le=1)  # share of demonstrations whose names are made-up words
    skew: float = Field(1.0, ge=0)  # Zipf exponent of the demonstrated tools: 0 is uniform
    noise_common: float = Field(0.0, ge=0, le=1)  # share of planted mistakes on the most demonstrated tool
    noise_rare: float = Field(0.0, ge=0, le=1)  # and on the least demonstrated one
    # null: the share rises evenly from one to the other; else: so many of the tools, the least demonstrated, have the
    # one of ``noise_rare`` and all others that of ``noise_common``
    weak_tools: int | None = Field(None, ge=0)
    seed: int = 0  # apart from the run's seed, so that the runs of a comparison can share one warm start


class LoraConfig(Section):
    rank: int = Field(16, ge=1)
    alpha: int = 32
    target_modules: list[str] | Literal["all-linear"] = "all-linear"


class TinyModelConfig(Section):
    """The CPU default: a Qwen3-architecture transformer made from nothing."""

    hidden: int = 128
    layers: int = 2
    heads: int = 8
    feed_forward: int = 384
    vocabulary: int = 600


class PolicyConfig(Section):
    model: str = "Qwen/Qwen3-4B-Instruct-2507"  # "tiny", "smollm2", a folder, or a hub name
    revision: str | None = None
    gguf_file: str | None = None
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    device: str = "auto"
    lora: LoraConfig | None = None
    recompute: bool = False  # training keeps each layer's input alone and computes the rest again: slower, far smaller
    tiny: TinyModelConfig = TinyModelConfig()
    warm_start: WarmStartConfig = WarmStartConfig()
    # how a pretrained model is told to act: by calls, written as JSON or as Python, or by programs ("code")
    call_syntax: Literal["json", "python", "code"] = "json"

    @model_validator(mode="after")
    def _tiny_is_made_here(self) -> PolicyConfig:
        loaded = {"revision": self.revision, "gguf_file": self.gguf_file, "lora": self.lora}
        set_ = [name for name, value in {**loaded, "recompute": self.recompute or None}.items() if value is not None]
        if self.model == "tiny" and self.device not in ("auto", "cpu"):
            set_.append("device")
        if self.model == "tiny" and set_:
            raise ValueError(
                f"the tiny policy is made here, on the CPU, and all of it is trained: {', '.join(set_)} would do "
                "nothing; remove it, or name a pretrained model"
            )
        return self


class RolloutConfig(Section):
    # No top_p and no top_k: they would sample from another distribution than the one that the trainer scores, so that
    # every ratio would be wrong; as unknown keys they are refused.
    temperature: float = Field(0.9, gt=0)  # table 9
    group_size: int = Field(8, ge=2)  # K, table 9
    tasks_per_step: int = Field(32, ge=1)  # train batch size, table 9
    # of a batch: tasks tried before. Forgetting needs it; the paper does not say how tasks are drawn.
    revisit_share: float = Field(0.25, ge=0, le=1)
    max_response_tokens: int = Field(4096, ge=1)  # per episode, table 9
    max_action_tokens: int = Field(1024, ge=1)  # per step
    max_parse_errors: int = Field(3, ge=1)
    concurrency: int = Field(256, ge=1)  # episodes in flight
    episode_seconds: float = Field(600, gt=0)  # that an episode's calls may take in the environment
    # policy versions that a trajectory may be behind the policy that it trains. 0, the paper: a step samples, then it
    # trains, and nothing is behind but what a person keeps and trains on by hand. 1: while a step of a round trains, a
    # server samples the rollouts of the next with the version before that update; what is older is refused and counted
    max_staleness: int = Field(0, ge=0, le=1)


class EngineConfig(Section):
    """What samples: this process ("torch"), or a vLLM server, started as a process of its own or joined ("vllm")."""

    kind: Literal["torch", "vllm"] = "torch"
    url: str | None = None  # join a server that runs already, e.g. http://127.0.0.1:8000; null: start one
    python: str | None = None  # interpreter that has vLLM; null: this one
    ready_seconds: float = Field(900, gt=0)  # until a started server answers
    request_seconds: float = Field(300, gt=0)  # deadline of one action
    max_model_len: int = Field(8192, ge=16)  # tokens of a whole conversation
    gpu_memory: float = Field(0.45, gt=0, lt=1)  # share that the server takes; the trainer has the rest
    sleep: bool = False  # one GPU shared in time: the server gives its memory back while the trainer works
    arguments: list[str] = Field(default_factory=list)  # more of the server's own command line
    proof_tolerance: float = Field(0.05, gt=0)  # largest log-probability gap at which a new version counts as arrived


class TrainingConfig(Section):
    """GRPO, equation 1."""

    steps_per_round: int = Field(10, ge=1)  # F, table 9
    learning_rate: float = Field(1e-6, gt=0)
    warmup_steps: int = Field(0, ge=0)
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = Field(0.0, ge=0)
    gradient_clip: float = Field(1.0, gt=0)  # largest norm; .inf: no clipping
    clip_low: float = Field(0.20, ge=0)
    clip_high: float = Field(0.28, ge=0)
    kl_coef: float = Field(1e-3, ge=0)
    advantage_eps: float = Field(1e-6, gt=0)
    normalize: Literal["group", "batch"] = "group"
    tokens_per_microbatch: int = Field(16384, ge=1)
    on_partial_group: Literal["drop", "fail"] = "drop"
    # weigh tokens by trainer's / sampler's probability, of the token or of the whole trajectory; off: the paper
    importance: Literal["off", "token", "sequence"] = "off"
    importance_cap: float = Field(2.0, ge=1)  # weights are cut there (ms-swift's default is 2, TRL's 3)
    # mean |log-probability gap| between sampler and trainer, in nats a token, above which a step raises the alarm: of
    # matched bfloat16 engines 0.01 to 0.03 are reported (vllm-project/vime#64, ServiceNow/Fast-LLM#525), and float32
    # ones here differ by less than 0.0001
    gap_alarm: float = Field(0.05, gt=0)


class ForgettingConfig(Section):
    window: int = Field(10, ge=1)  # W is not published
    threshold: float = 0.5


class BoundaryConfig(Section):
    threshold: float = 0.5


class RareConfig(Section):
    theta: float = Field(5.0, ge=0)  # percent
    n_min: int = Field(100, ge=0)  # not published
    pattern: Literal["tool", "bigram", "sequence"] = "bigram"
    min_trajectories: int = Field(2, ge=1)  # a pattern must recur in that many trajectories: no one-off accidents


class SignalsConfig(Section):
    """A signal set to null is off (table 5's ablations)."""

    forgetting: ForgettingConfig | None = ForgettingConfig()
    boundary: BoundaryConfig | None = BoundaryConfig()
    rare: RareConfig | None = RareConfig()
    custom: dict[str, dict[str, Any]] = Field(default_factory=dict)  # options of registered signals, by name

    @field_validator("forgetting", "boundary", "rare", mode="before")
    @classmethod
    def _switched(cls, value: Any) -> Any:
        """``rare: false`` reads better than ``rare: null``; both switch it off."""
        return None if value is False else value


class EndpointConfig(Section):
    """A model behind an OpenAI-compatible interface. Its key comes from the environment and is written nowhere."""

    model: str = ""
    base_url: str | None = None  # None: the openai package's own default
    api_key_env: str = "OPENAI_API_KEY"  # name of the variable; a local server needs no key
    temperature: float = Field(0.7, ge=0)
    max_tokens: int = Field(4096, ge=1)  # of one reply
    structured: Literal["schema", "text"] = "schema"  # text: for endpoints that offer no schema-guided replies
    price_prompt: float = Field(0.0, ge=0)  # money per million tokens
    price_completion: float = Field(0.0, ge=0)

    @field_validator("api_key_env", "base_url")
    @classmethod
    def _without_secrets(cls, value: str | None, info: ValidationInfo) -> str | None:
        if info.field_name == "api_key_env" and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value or ""):
            raise ValueError("is the name of an environment variable, not a key")
        if info.field_name == "base_url" and value and "@" in urlsplit(value).netloc:
            raise ValueError("must not hold credentials: put the key into the variable that api_key_env names")
        return value


class ExplorerConfig(EndpointConfig):
    """Who explores. Everything but ``kind`` and ``options`` is for kind "llm"; a plain name means that kind."""

    kind: str = "scripted"  # "scripted", "llm", or a name given to register_explorer
    options: dict[str, Any] = Field(default_factory=dict)  # for registered explorers
    roles: dict[Literal["reflect", "explore", "abstract", "judge"], dict[str, Any]] = Field(default_factory=dict)
    prompts: str | None = None  # a folder whose files replace the shipped prompts of the same name
    connections: int = Field(32, ge=1)  # calls in flight
    retries: int = Field(4, ge=0)  # after 408, 409, 429, 5xx and lost connections
    call_seconds: float = Field(120, gt=0)  # deadline of one call, retries included
    evolution_seconds: float | None = Field(None, gt=0)  # an evolution stops cleanly at each of these
    evolution_tokens: int | None = Field(None, ge=1)
    evolution_cost: float | None = Field(None, gt=0)
    cassette: str | None = None  # replay this recording and ask nobody

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _complete(self) -> ExplorerConfig:
        if self.kind == "llm" and not self.model:
            raise ValueError("an explorer of kind 'llm' needs a model, e.g. {kind: llm, model: qwen3-max}")
        if self.kind == "scripted" and (self.model or self.base_url or self.roles or self.cassette or self.prompts):
            raise ValueError(
                "model, base_url, roles, prompts and cassette are of explorers of kind 'llm': add kind: llm"
            )
        for role in self.roles:
            self.endpoint(role)
        return self

    def endpoint(self, role: str) -> EndpointConfig:
        """The endpoint of a role: this one, with the role's own settings on top."""
        own = {name: getattr(self, name) for name in EndpointConfig.model_fields}
        changes: dict[str, Any] = next((c for r, c in self.roles.items() if r == role), {})
        return EndpointConfig.model_validate({**own, **changes})


class EvolutionConfig(Section):
    mode: Literal["feedback", "random", "uniform", "none"] = "feedback"
    explorer: ExplorerConfig = ExplorerConfig()
    initial_tasks: int = Field(100, ge=1)  # N, table 9
    contexts_per_round: int = Field(32, ge=1)
    tasks_per_round: int = Field(96, ge=0)  # at most this many tasks are appended in a round
    balance: Literal["floor", "none"] = "floor"  # none: the paper's raw signal counts
    floor: float = Field(0.25, ge=0, le=1)  # with balance "floor": share of contexts spread evenly over the tools
    rollouts_per_context: int = Field(2, ge=1)  # R
    steps_per_rollout: int = Field(6, ge=1)  # S
    min_calls: int = Field(3, ge=1)  # section 3.3: at least 3 steps
    max_calls: int = Field(10, ge=1)
    max_turns: int = Field(1, ge=1)
    skew: float = Field(1.0, ge=0)  # Zipf exponent of the scripted explorer's own preferences among tools
    validate_drafts: bool = True  # table 11's ablation
    draft_seconds: float = Field(20, gt=0)  # deadline for executing one draft, solution and controls together
    # "compare" asks the explorer's LLM judge too and records what it says; "gate" lets it decide, as the paper does
    judge: Literal["off", "compare", "gate"] = "off"
    # a person decides about every task before it enters, or about those that a risk rule marks
    review: Literal["auto", "risk", "manual"] = "auto"
    max_similarity: float = Field(0.95, gt=0, le=1)  # near duplicates of evaluation tasks are refused
    similarity: Literal["words", "minilm"] = "words"
    # table 13: only drafts whose similarity to the nearest evaluation task is in this band; null: any
    similarity_band: Literal["low", "medium", "high", "mixed"] | None = None

    @model_validator(mode="after")
    def _one_gate(self) -> EvolutionConfig:
        if self.judge == "gate" and not self.validate_drafts:
            raise ValueError("judge 'gate' decides about drafts, and validate_drafts false accepts all: choose one")
        return self


class Config(Section):
    """A run. ``seed`` decides every random draw together with the round and step counters."""

    name: str = "run"
    seed: int = 0
    rounds: int = Field(12, ge=0)
    threads: int | None = Field(None, ge=1)  # torch threads; None: what is really available
    evaluate_every: int = Field(1, ge=1)  # rounds
    environment: EnvironmentConfig = EnvironmentConfig()
    policy: PolicyConfig = PolicyConfig()
    engine: EngineConfig = EngineConfig()
    rollout: RolloutConfig = RolloutConfig()
    training: TrainingConfig = TrainingConfig()
    signals: SignalsConfig = SignalsConfig()
    evolution: EvolutionConfig = EvolutionConfig()

    @model_validator(mode="after")
    def _overlap_needs_two_places(self) -> Config:
        if self.rollout.max_staleness and self.engine.kind != "vllm":
            raise ValueError(
                "rollout.max_staleness 1 samples while the policy trains, and engine.kind 'torch' samples with the "
                "weights that change meanwhile: set engine.kind to 'vllm', or max_staleness to 0"
            )
        if self.rollout.max_staleness and self.engine.sleep:
            raise ValueError(
                "rollout.max_staleness 1 samples while the policy trains, and with engine.sleep the server has no "
                "memory then: set engine.sleep to false (two GPUs, see docs/gpu.md), or max_staleness to 0"
            )
        return self

    def fingerprint(self) -> str:
        """Twelve hex digits that change with any value."""
        return fingerprint(self.model_dump(mode="json"))


def fingerprint(value: Any) -> str:
    """Twelve hex digits of a JSON-like value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
