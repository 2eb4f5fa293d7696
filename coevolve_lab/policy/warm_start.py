"""Builds the tiny policy: demonstrations, a vocabulary of their text, supervised steps; cached by what it depends on.

The paper starts from a pretrained LLM and calls cold start an open question (limitations). Here the cold start is
explicit: the warm policy is only as good as its demonstrations, see ``demonstrations.py`` for what they lack.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from coevolve_lab.config import PolicyConfig, fingerprint
from coevolve_lab.environments.base import content_of
from coevolve_lab.errors import PolicyError
from coevolve_lab.policy.chat import ChatFormat
from coevolve_lab.policy.demonstrations import Demonstration, DemonstrationWorld, demonstrate
from coevolve_lab.policy.policy import Policy, assemble
from coevolve_lab.policy.tiny import SPECIALS, TinyChat, build_model, train_tokenizer
from coevolve_lab.training.supervised import supervised_steps

TOKENIZER = "tokenizer.json"
RECIPE = 2  # raise it when the code makes another policy from the same config, so that older caches are left alone
COPY_LENGTHS = (4, 14)  # tokens
COPYING_LEARNED = 0.1  # nats per token


def tiny_policy(config: PolicyConfig, folder: Path) -> Policy:
    """The tiny policy whose vocabulary and weights ``folder`` holds. Raises PolicyError when it does not."""
    if not (folder / TOKENIZER).exists():
        raise PolicyError(f"no tiny policy in {folder}: {TOKENIZER} is missing")
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    policy = assemble(build_model(config.tiny, tokenizer.get_vocab_size(), config.warm_start.seed), TinyChat(tokenizer))
    policy.load(folder)
    return policy


def warm_started(
    config: PolicyConfig,
    world: DemonstrationWorld,
    world_options: object,
    progress: Callable[[int, int, float], None] | None = None,
) -> tuple[Policy, Path, bool]:
    """The warm policy, the cached folder it lies in, and whether it was found there.

    progress(step, steps, loss) is called during training. The cache: ``$COEVOLVE_CACHE``, ``~/.cache/coevolve_lab``.
    """
    depends_on = [RECIPE, config.tiny.model_dump(), config.warm_start.model_dump()]
    depends_on += [world.name, world_options, *filter(None, [content_of(world)])]
    folder = cache_folder() / f"warm-{fingerprint(depends_on)}"
    found = folder.is_dir()
    if not found:
        _make(config, world, folder, progress)
    return tiny_policy(config, folder), folder, found


def cache_folder() -> Path:
    """Where what can be made again is kept."""
    return Path(os.environ.get("COEVOLVE_CACHE", "~/.cache/coevolve_lab")).expanduser()


def examples(demonstrations: Sequence[Demonstration], chat: ChatFormat) -> list[tuple[list[int], list[int]]]:
    """(ids, mask) of each demonstration; the mask is 1 on the demonstrated actions' tokens only."""
    rows = []
    for one in demonstrations:
        ids = chat.prompt(one.query, [])
        mask = [0] * len(ids)
        for action, reply in one.exchanges:
            said = chat.action(action)
            heard = chat.reply(reply, from_user=False) if reply else []
            ids = ids + said + heard
            mask += [1] * len(said) + [0] * len(heard)
        rows.append((ids, mask))
    return rows


def copy_exercise(chat: TinyChat, rng: random.Random) -> tuple[list[int], list[int]]:
    """(ids, mask) of a conversation in which the action repeats the user's random tokens."""
    words = [rng.randrange(len(SPECIALS), chat.tokenizer.get_vocab_size()) for _ in range(rng.randint(*COPY_LENGTHS))]
    ids = [*chat.prompt_ids(words), *words, chat.end_ids[0]]
    return ids, [0] * (len(ids) - len(words) - 1) + [1] * (len(words) + 1)


def _make(
    config: PolicyConfig,
    world: DemonstrationWorld,
    folder: Path,
    progress: Callable[[int, int, float], None] | None,
) -> None:
    warm = config.warm_start
    shown = demonstrate(world, warm, warm.seed)
    corpus = (text for one in shown for text in (one.query, *(t for exchange in one.exchanges for t in exchange)))
    tokenizer = train_tokenizer(corpus, config.tiny.vocabulary)
    model = build_model(config.tiny, tokenizer.get_vocab_size(), warm.seed)
    chat = TinyChat(tokenizer)
    rng = random.Random(warm.seed)
    copying = [copy_exercise(chat, rng) for _ in range(warm.copy_steps * warm.batch)]
    shown_examples = examples(shown, chat)
    shown_examples += copying[: len(shown) // 4]  # a few in between, lest it be unlearned
    supervised_steps(
        model, copying, warm.copy_steps, warm.batch, warm.learning_rate, warm.seed, until=COPYING_LEARNED,
        progress=progress,
    )  # fmt: skip
    supervised_steps(model, shown_examples, warm.steps, warm.batch, warm.learning_rate, warm.seed, progress=progress)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
    assemble(model, chat).save(made)
    tokenizer.save(str(made / TOKENIZER))
    try:
        made.rename(folder)
    except OSError:  # another process was first: its result is the same
        shutil.rmtree(made)
