"""Generation with caches equals forward passes over the whole text, transformers' own generation, and counting."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tests.model.oracle import hf_model, random_weights
from torch import Tensor

from trex.kernels import ops
from trex.model.cache import Cache
from trex.model.config import HEAVY, SPARSE, WINDOW, ConfigError, ModelConfig
from trex.model.decode import decode, prefill
from trex.model.generate import Generated, generate, stream
from trex.model.sampling import Sampling
from trex.model.transformer import Transformer

TINY = ModelConfig.tiny()  # every layer kind, window 16, index_topk 8
LENGTHS = (1, 3, 4, 5, 127, 128, 129)
STEPS = 200


def built(config: ModelConfig, dtype: torch.dtype = torch.float64, seed: int = 1) -> Transformer:
    model = Transformer(config).to(dtype)
    model.load_state_dict(random_weights(config, seed))
    return model


def ids(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, TINY.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def prompts(*lengths: int) -> list[list[int]]:
    return [ids(n, seed=n).tolist() for n in lengths]


@torch.no_grad()
def whole(model: Transformer, row: Sequence[int]) -> Tensor:
    """Logits at every position, by one forward pass: [S, vocab]."""
    logits = model(torch.tensor([list(row)])).logits
    assert logits is not None
    return logits[0]


def prefilled(model: Transformer, rows: Tensor, lengths: Sequence[int], steps: int) -> tuple[Tensor, Cache]:
    """Prefill with the first lengths[r] tokens of each row; what follows them is other text, which must not matter."""
    longest = max(lengths)
    padded = ids(len(rows), longest, seed=99)
    for padded_row, row, length in zip(padded, rows, lengths, strict=True):
        padded_row[:length] = row[:length]
    return prefill(model, padded, torch.tensor(lengths), longest + steps)


def worst_difference(model: Transformer, lengths: Sequence[int], steps: int) -> float:
    """Largest |Δ logit| of prefill and of `steps` cached decoding steps against one forward pass per row."""
    rows = ids(len(lengths), max(lengths) + steps)
    right = [whole(model, row[: length + steps].tolist()) for row, length in zip(rows, lengths, strict=True)]
    logits, cache = prefilled(model, rows, lengths, steps)
    worst = []
    for step in range(steps + 1):
        worst += [(logits[r] - right[r][n + step - 1]).abs().max() for r, n in enumerate(lengths)]
        if step < steps:
            logits = decode(model, torch.stack([rows[r, n + step] for r, n in enumerate(lengths)]), cache)
    assert cache.lengths == [n + steps for n in lengths]
    return float(torch.stack(worst).max())


@pytest.mark.slow
def test_cached_decoding_equals_the_forward_pass() -> None:
    """All layer kinds together; hash layers among them, the window shorter than most prompts, top-k binding."""
    assert worst_difference(built(TINY), LENGTHS, STEPS) <= 1e-9


@pytest.mark.parametrize("ratio", [WINDOW, SPARSE, HEAVY])
@pytest.mark.parametrize("over", [{"window": 150, "index_topk": 1000}, {"window": 1, "index_topk": 1}])
def test_each_layer_kind_alone(ratio: int, over: dict[str, int]) -> None:
    """A window longer than the prompts and every entry selected; and the least of both."""
    config = ModelConfig.tiny(num_layers=1, compress_ratios=(ratio,), hash_layers=0, **over)
    assert worst_difference(built(config), (1, 4, 129), STEPS) <= 1e-9


def test_more_layers_of_a_kind_and_other_shapes() -> None:
    config = ModelConfig.tiny(
        num_layers=3, compress_ratios=(SPARSE, SPARSE, HEAVY), hash_layers=1, hc_mult=2, num_shared_experts=0,
        mtp_layers=0, window=7, index_topk=5, experts_per_token=3,
    )  # fmt: skip
    assert worst_difference(built(config), (2, 6, 126), 140) <= 1e-9


def test_ties_of_index_scores_fall_as_in_the_forward_pass() -> None:
    """Of one head, which scores every entry on its other side zero; and an indexer that scores everything zero."""
    config = ModelConfig.tiny(num_layers=1, compress_ratios=(SPARSE,), hash_layers=0, index_topk=4, index_heads=1)
    model = built(config)
    assert worst_difference(model, (1, 10), 60) <= 1e-9
    with torch.no_grad():
        model.get_parameter("layers.0.attn.indexer.weights_proj.weight").zero_()
    assert worst_difference(model, (1, 10), 60) <= 1e-9


def test_lower_precisions_stay_near_float64() -> None:
    """Steps round as the forward pass does: neither is nearer to float64 than the other by more than half."""
    config = ModelConfig.tiny(index_topk=1000)  # a choice would turn a rounding into another text
    rows, lengths = ids(3, 90), (1, 20, 60)
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        model = built(config, dtype)
        exact = Transformer(config).double()
        exact.load_state_dict(model.state_dict())
        logits, cache = prefilled(model, rows, lengths, 30)
        steps = [logits]
        for step in range(30):
            steps.append(decode(model, torch.stack([rows[r, n + step] for r, n in enumerate(lengths)]), cache))
        errors: list[list[Tensor]] = [[], []]
        for r, n in enumerate(lengths):
            right = whole(exact, rows[r, : n + 30].tolist())[n - 1 :]
            errors[0].append(torch.stack([logits[r] for logits in steps]) - right)
            errors[1].append(whole(model, rows[r, : n + 30].tolist())[n - 1 :] - right)
        cached, full = (float(torch.cat(e).double().square().mean().sqrt()) for e in errors)
        assert steps[0].dtype == dtype
        assert cached < bound and cached < 1.5 * full, (cached, full)


def test_the_cache_is_as_large_as_the_formula_says_and_does_not_grow() -> None:
    model = built(TINY)
    rows, lengths, steps = ids(2, 200), (150, 9), 50
    _, cache = prefilled(model, rows, lengths, steps)
    c, i, window, limit = TINY.head_dim, TINY.index_dim, TINY.window, 150 + steps
    channels = 2 * window * c  # two layers of each kind
    channels += 2 * ((window + limit // 4) * c + limit // 4 * i + 8 * 2 * (2 * c + 2 * i))
    channels += 2 * ((window + limit // 128) * c + 128 * 2 * c)
    assert cache.nbytes() == len(lengths) * channels * 8
    for step in range(steps):
        decode(model, rows[:, 150 + step], cache)
    assert cache.nbytes() == len(lengths) * channels * 8
    with pytest.raises(ConfigError, match="a row of 200 tokens; accepted: fewer than 200"):
        decode(model, rows[:, 0], cache)


def test_rows_of_a_cache_can_be_kept_in_any_order() -> None:
    model = built(TINY)
    rows, lengths = ids(3, 200), (5, 130, 30)
    _, cache = prefilled(model, rows, lengths, 20)
    kept = cache.keep([2, 0])
    assert kept.lengths == [30, 5]
    new = ids(20, 3, seed=5)
    for tokens in new:
        both = decode(model, tokens, cache), decode(model, tokens[[2, 0]], kept)
        assert (both[0][[2, 0]] - both[1]).abs().max() <= 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_greedy_text_is_that_of_transformers(dtype: torch.dtype) -> None:
    """Token for token; in float32 up to where its two best logits are closer than its rounding."""
    model, theirs = built(TINY, dtype), hf_model(TINY, random_weights(TINY, 1), dtype)
    starts = prompts(1, 16, 130)
    for start, ours in zip(starts, generate(model, starts, max_new_tokens=40), strict=True):
        row = torch.tensor([start])
        text = theirs.generate(
            row, attention_mask=torch.ones_like(row), max_new_tokens=40, do_sample=False, eos_token_id=None,
            pad_token_id=0,
        )[0, len(start) :].tolist()  # fmt: skip
        assert len(set(text)) > 20  # no loop of a few tokens
        if ours.tokens != text:
            assert dtype == torch.float32
            fork = next(i for i, (a, b) in enumerate(zip(ours.tokens, text, strict=True)) if a != b)
            best = whole(model, start + text[:fork])[-1].topk(2)
            assert set(best.indices.tolist()) == {ours.tokens[fork], text[fork]}
            assert best.values[0] - best.values[1] < 1e-4


def test_greedy_text_and_logprobs_are_those_of_one_forward_pass() -> None:
    model, starts = built(TINY), prompts(3, 40)
    for start, new in zip(starts, generate(model, starts, max_new_tokens=30), strict=True):
        logits = whole(model, start + new.tokens)[len(start) - 1 : -1]
        assert new.tokens == logits.argmax(-1).tolist() and new.finish == "length"
        right = logits.log_softmax(-1)[range(30), new.tokens]
        assert (torch.tensor(new.logprobs, dtype=torch.float64) - right).abs().max() <= 1e-9


def test_of_equal_logits_greedy_takes_the_lowest_id() -> None:
    model = built(TINY)
    with torch.no_grad():
        model.head.weight[256:] = model.head.weight[:256]
    first, second = whole(model, [7])[-1].topk(2).indices.tolist()
    assert abs(first - second) == 256
    assert max(generate(model, [[7]], max_new_tokens=30)[0].tokens) < 256


def test_a_row_that_stopped_stays_so_while_others_go_on() -> None:
    model, starts = built(TINY), prompts(5, 20, 130, 8)
    free = [row.tokens for row in generate(model, starts, max_new_tokens=25)]
    stop = [free[0][3], free[1][0], free[2][9]]
    right = []
    for row in free:
        end = next((i + 1 for i, token in enumerate(row) if token in stop), len(row))
        right.append((row[:end], "stop" if row[end - 1] in stop else "length"))
    ended = generate(model, starts, max_new_tokens=25, stop=stop)
    assert [(row.tokens, row.finish) for row in ended] == right
    assert {len(row.logprobs) for row in ended} == {len(tokens) for tokens, _ in right} >= {1, 4, 10, 25}
    assert generate(model, starts[:1], max_new_tokens=4, stop=free[0][3])[0].finish == "stop"  # by its last token


def test_a_stream_gives_tokens_as_they_come() -> None:
    """No step runs before its first token is asked for, and a consumer's gradients stay on."""
    model, starts = built(TINY), prompts(5, 20, 130)
    free = generate(model, starts, max_new_tokens=6)
    steps: list[int] = []
    handle = model.head.register_forward_hook(lambda *_: steps.append(1))
    tokens = stream(model, starts, max_new_tokens=6, stop=[free[1].tokens[2]])
    assert len(steps) == 0
    seen = []
    for count, token in enumerate(tokens):
        assert torch.is_grad_enabled() and len(steps) == 1 + (count // 3 if count < 9 else 3 + (count - 9) // 2)
        seen.append(token)
    handle.remove()
    assert [token.row for token in seen] == [0, 1, 2] * 3 + [0, 2] * 3
    assert [token.id for token in seen if token.row == 2] == free[2].tokens
    assert [token.finish for token in seen] == [None] * 7 + ["stop"] + [None] * 5 + ["length"] * 2


@pytest.mark.parametrize("over", [{}, {"top_k": 7}, {"top_p": 0.6}, {"top_k": 20, "top_p": 0.6}, {"top_k": 10_000}])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_the_distribution_is_that_of_transformers(over: dict[str, Any], temperature: float) -> None:
    from transformers.generation import logits_process as hf

    logits = 2 * torch.randn(6, 300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    chain: list[Any] = [hf.TemperatureLogitsWarper(temperature)]
    chain += [hf.TopKLogitsWarper(over["top_k"])] if "top_k" in over else []
    chain += [hf.TopPLogitsWarper(over["top_p"])] if "top_p" in over else []
    right = logits
    for warper in chain:
        right = warper(None, right)
    found, p = Sampling(temperature, **over).distribution(logits)
    ours = torch.zeros_like(logits).scatter_(-1, found, p)
    assert (ours - right.softmax(-1)).abs().max() <= 1e-12


def test_draws_follow_the_distribution() -> None:
    """Equally spaced uniforms hit each id in proportion to its probability, to within one, and no other id."""
    sampling, n = Sampling(1.0, top_p=0.9), 20_000
    logits = torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = sampling.choose(logits.expand(n, -1), (torch.arange(n, dtype=torch.float64) + 0.5) / n)
    found, p = (x[0] for x in sampling.distribution(logits[None]))
    expected = torch.zeros(40, dtype=torch.float64).scatter_(0, found, n * p)
    counts = drawn.bincount(minlength=40)
    assert (counts - expected).abs().max() <= 1 and not counts[expected == 0].any() and (expected == 0).any()
    for ends in (0.0, 1 - 2**-53, 1.0):  # 1 - 2^-53 is 1 in float32
        last = sampling.choose(logits[None].float(), torch.tensor([ends], dtype=torch.float64))
        assert int(last) == int(found[0] if ends == 0 else found[p > 0][-1])


def test_of_equal_logits_the_lower_ids_are_kept() -> None:
    logits = torch.zeros(1, 50)
    for over in ({"top_k": 5}, {"top_p": 0.099}):
        found, p = Sampling(1.0, **over).distribution(logits)
        assert found[p > 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("over", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}, {"temperature": 5e-324}])
def test_sampling_from_the_likeliest_alone_is_greedy(over: dict[str, Any]) -> None:
    model, starts = built(TINY), prompts(3, 40)
    likeliest = generate(model, starts, max_new_tokens=10)
    assert generate(model, starts, max_new_tokens=10, **{"temperature": 1.0, **over}) == likeliest


@pytest.mark.slow
def test_sampled_text_is_the_seeds_and_no_neighbour_changes_it() -> None:
    model, starts = built(TINY), prompts(5, 20, 130)
    how: dict[str, Any] = {"max_new_tokens": 20, "temperature": 1.5, "top_k": 100, "top_p": 0.95}
    together = generate(model, starts, seed=3, **how)
    alone = [generate(model, [start], seed=3, **how)[0] for start in starts]
    assert [row.tokens for row in together] == [row.tokens for row in alone]
    assert generate(model, starts, seed=3, **how) == together
    ended = generate(model, starts, seed=3, stop=[together[1].tokens[2]], **how)
    assert ended[1].finish == "stop" and ended[2].tokens == together[2].tokens  # neighbours that leave change nothing
    seeds = generate(model, [starts[0]] * 3, seed=[3, 4, 3], **how)
    assert seeds[0].tokens == seeds[2].tokens == together[0].tokens != seeds[1].tokens


def test_sampled_text_is_drawn_from_the_models_logits() -> None:
    """Every token again, from a forward pass over the text before it and the row's own generator."""
    model, [start] = built(TINY), prompts(20)
    [new] = generate(model, [start], max_new_tokens=15, temperature=1.2, top_p=0.9, seed=11)
    logits, draw = whole(model, start + new.tokens), torch.Generator().manual_seed(11)
    for place, token in enumerate(new.tokens, start=len(start) - 1):
        p = (logits[place] / 1.2).softmax(-1)
        order = sorted(range(len(p)), key=(-p).tolist().__getitem__)
        total = list(itertools.accumulate(float(p[token]) for token in order))
        kept = next(i for i, mass in enumerate(total) if mass >= 0.9)
        target = float(torch.rand((), generator=draw, dtype=torch.float64)) * total[kept]
        assert token == order[next(i for i, mass in enumerate(total) if mass > target)]


def test_a_tensor_of_prompts_and_any_state_of_the_model() -> None:
    model, rows = built(TINY), ids(2, 12)
    right = generate(model, rows.tolist(), max_new_tokens=5)
    assert isinstance(right[0], Generated) and generate(model, rows, max_new_tokens=5) == right
    assert model.training and generate(model.eval(), rows, max_new_tokens=5) == right
    with torch.inference_mode():
        assert generate(model, rows, max_new_tokens=5) == right
    with torch.random.fork_rng():
        state = torch.get_rng_state()
        generate(model, rows, max_new_tokens=5, temperature=1.0)
        assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None for p in model.parameters())


def test_the_mtp_block_does_not_run() -> None:
    model = built(TINY)
    before = generate(model, prompts(9), max_new_tokens=5)
    with torch.no_grad():
        for parameter in model.mtp.parameters():
            parameter.fill_(torch.nan)
    assert generate(model, prompts(9), max_new_tokens=5) == before


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"prompts": []}, "no prompts; accepted: at least one"),
        ({"prompts": [[1], []]}, r"prompt 1 is \[\]; accepted: a list of one token id or more"),
        ({"prompts": [1, 2]}, "prompt 0 is 1; accepted: a list"),
        ({"prompts": ["text"]}, "token id 't' in prompt 0"),
        ({"prompts": [[1], [2, 512]]}, "token id 512 in prompt 1; accepted: 0 to 511"),
        ({"prompts": [[-1]]}, "token id -1 in prompt 0"),
        ({"prompts": [[1.0]]}, "token id 1.0 in prompt 0"),
        ({"prompts": [[True]]}, "token id True in prompt 0"),
        (
            {"prompts": torch.zeros(3, dtype=torch.int64)},
            r"prompts are \(3,\) torch.int64; accepted: \[B, S\] integers",
        ),
        ({"prompts": torch.zeros(1, 3)}, r"prompts are \(1, 3\) torch.float32"),
        ({"prompts": torch.zeros(2, 0, dtype=torch.int64)}, r"prompt 0 is \[\]"),
        ({"max_new_tokens": 0}, "max_new_tokens = 0; accepted: integers from 1"),
        ({"max_new_tokens": 2.0}, "max_new_tokens = 2.0"),
        ({"temperature": -0.1}, "temperature = -0.1; accepted: finite numbers from 0"),
        ({"temperature": float("inf")}, "temperature = inf"),
        ({"temperature": float("nan")}, "temperature = nan"),
        ({"top_k": 0}, "top_k = 0; accepted: integers from 1, or None"),
        ({"top_k": True}, "top_k = True"),
        ({"top_p": 0.0}, "top_p = 0.0; accepted: numbers above 0 and up to 1, or None"),
        ({"top_p": 1.01}, "top_p = 1.01"),
        ({"stop": [512]}, "stop id 512; accepted: 0 to 511"),
        ({"stop": -1}, "stop id -1"),
        ({"stop": [None]}, "stop id None"),
        ({"seed": -1}, "seed = -1; accepted"),
        ({"seed": None}, "seed = None; accepted"),
        ({"seed": [1, 2]}, r"seed = \[1, 2\]; accepted: an integer from 0 to 2\^63 - 1, or 1 of them"),
    ],
)
def test_what_makes_no_sense_is_refused(over: dict[str, Any], message: str) -> None:
    """At the call, of the stream too, not at its first token."""
    model = Transformer(TINY)
    for call in (generate, stream):
        with pytest.raises(ConfigError, match=message):
            call(model, **{"prompts": [[1]], "max_new_tokens": 1, **over})


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_that_gives_no_numbers_is_refused(temperature: float) -> None:
    model = Transformer(TINY)
    with torch.no_grad():
        model.norm.weight[3] = torch.nan
    with pytest.raises(ConfigError, match="token 1 of row 0; accepted: finite logits"):
        generate(model, [[1]], max_new_tokens=1, temperature=temperature)


@pytest.mark.parametrize(
    ("lengths", "limit", "message"),
    [
        ([1, 0], 9, r"lengths \[1, 0\]; accepted: 2 of them, from 1 to 6"),
        ([1, 7], 9, "from 1 to 6"),
        ([1], 9, "2 of them"),
        ([1, 6], 5, "limit 5; accepted: from 6"),
    ],
)
def test_lengths_and_limits_that_do_not_fit_are_refused(lengths: list[int], limit: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prefill(Transformer(TINY), ids(2, 6), torch.tensor(lengths), limit)


def test_steps_run_on_the_operators() -> None:
    """Decoding asks for the operators by name, so that a faster backend of any of them serves it."""
    model, names = built(TINY), set()
    run = ops.run

    def noted(operator: str, *arguments: Any) -> Any:
        names.add(operator)
        return run(operator, *arguments)

    _, cache = prefilled(model, ids(1, 140), [127], 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "run", noted)
        decode(model, ids(1), cache)
    assert {"attend", "index_scores", "top_entries", "compress", "rope", "read_streams"} <= names
    assert not names & {"shared_kv_attention", "select_entries", "indexer_loss"}
