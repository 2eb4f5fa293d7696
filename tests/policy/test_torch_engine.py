import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from coevolve_lab.config import TinyModelConfig
from coevolve_lab.policy.engine import Request
from coevolve_lab.policy.tiny import build_model
from coevolve_lab.policy.torch_engine import TorchEngine

END, PAD, VOCABULARY = 1, 0, 64


def _llama():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, pad_token_id=PAD, eos_token_id=END, bos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def _qwen():
    return build_model(TinyModelConfig(hidden=32, layers=2, heads=2, feed_forward=64), VOCABULARY, seed=0).eval()


MODELS = {"qwen3": _qwen, "llama": _llama}


def _conversations(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(5, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]


def _plain_logprobs(model, ids, sampled, temperature):
    with torch.no_grad():
        logp = (model(torch.tensor([ids + list(sampled)])).logits[0] / temperature).log_softmax(-1)
    return [logp[len(ids) - 1 + i, token].item() for i, token in enumerate(sampled)]


@pytest.mark.parametrize("name", MODELS)
def test_cached_turns_equal_a_plain_forward(name):
    """Left padding, kept cache, dropped rows and reordered rows change no log-probability."""
    model = MODELS[name]()
    engine = TorchEngine(model, [END], PAD)
    talks = dict(enumerate(_conversations((5, 12, 9, 3))))
    for turn, keys in enumerate([[0, 1, 2, 3], [3, 0, 2], [2, 3]]):
        out = engine.generate([Request(str(k), talks[k], 6 + turn) for k in keys], 0.9, seed=turn)
        for key, completion in zip(keys, out, strict=True):
            expected = _plain_logprobs(model, talks[key], completion.ids, 0.9)
            assert completion.logprobs == pytest.approx(expected, abs=2e-6)
            talks[key] = talks[key] + list(completion.ids) + [7 + key] * (key + 1)


@pytest.mark.parametrize("name", MODELS)
def test_a_few_long_actions_go_on_in_a_cache_of_their_own(name):
    """Rows that are taken out, fed and put back continue in the next turn as if they had never left."""
    model = MODELS[name]()
    engine = TorchEngine(model, [END], PAD)
    limits = [1, 2, 2, 9, 1, 14, 3, 1]
    talks = _conversations((5, 12, 9, 3, 4, 6, 5, 5))
    for turn in range(3):
        limits = limits[1:] + limits[:1]
        out = engine.generate(
            [Request(str(i), t, n) for i, (t, n) in enumerate(zip(talks, limits, strict=True))], 0.9, turn
        )
        for i, completion in enumerate(out):
            assert len(completion.ids) == limits[i] or completion.finished
            expected = _plain_logprobs(model, talks[i], completion.ids, 0.9)
            assert completion.logprobs == pytest.approx(expected, abs=2e-6)
            talks[i] = talks[i] + list(completion.ids) + [7 + i] * (i % 3 + 1)


def test_keeping_the_cache_changes_nothing():
    model = _qwen()
    results = []
    for keep in (True, False):
        engine, talks = TorchEngine(model, [END], PAD, keep_cache=keep), _conversations((4, 8))
        for turn in range(3):
            out = engine.generate([Request(str(i), t, 5) for i, t in enumerate(talks)], 0.0, seed=turn)
            talks = [t + list(o.ids) + [9, 10] for t, o in zip(talks, out, strict=True)]
        results.append(talks)
    assert results[0] == results[1]


def test_same_seed_same_tokens_and_another_seed_others():
    engine = TorchEngine(_qwen(), [END], PAD)
    requests = [Request(str(i), t, 12) for i, t in enumerate(_conversations((4, 4, 4)))]

    def sampled(seed):
        engine.release(["0", "1", "2"])
        return [c.ids for c in engine.generate(requests, 1.0, seed)]

    assert sampled(1) == sampled(1) != sampled(2)


def test_a_completion_stops_at_its_end_token_or_its_limit():
    model = _qwen()
    with torch.no_grad():
        model.model.norm.weight.zero_()  # every token equally likely, so greedy takes id 0
    engine = TorchEngine(model, [0], PAD)
    ended, cut = engine.generate([Request("a", [5], 4), Request("b", [6, 7], 0)], 0.0, 0)
    assert ended.ids == (0,)
    assert ended.finished
    assert cut.ids == ()
    assert not cut.finished
    never = TorchEngine(model, [3], PAD).generate([Request("a", [5], 4)], 0.0, 0)[0]
    assert never.ids == (0, 0, 0, 0)
    assert not never.finished


def test_a_new_policy_version_never_reads_the_old_cache():
    """Stale prefix caches after an update: vllm#9744, #42125."""
    model = _qwen()
    engine = TorchEngine(model, [END], PAD)
    talk = _conversations((6,))[0]
    first = engine.generate([Request("a", talk, 3)], 0.0, 0)[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    engine.policy_version += 1
    talk = talk + list(first.ids) + [8]
    second = engine.generate([Request("a", talk, 3)], 1.0, 0)[0]
    assert second.logprobs == pytest.approx(_plain_logprobs(model, talk, second.ids, 1.0), abs=2e-6)


def test_an_interrupted_turn_leaves_no_half_fed_cache():
    model = _qwen()
    engine = TorchEngine(model, [END], PAD)
    talk = _conversations((6,))[0]
    engine.generate([Request("a", talk, 2)], 0.0, 0)

    def interrupt(*_):
        raise KeyboardInterrupt

    hook = model.model.layers[1].register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        engine.generate([Request("a", [*talk, 9, 10, 11], 2)], 0.0, 0)
    hook.remove()
    again = engine.generate([Request("a", [*talk, 9], 2)], 1.0, 0)[0]
    assert again.logprobs == pytest.approx(_plain_logprobs(model, [*talk, 9], again.ids, 1.0), abs=2e-6)
