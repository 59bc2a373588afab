"""Generation: prompts of different lengths in one batch, greedy or sampled, until a stop id or a number of tokens.

for text in generate(model, [prompt, other], max_new_tokens=100, stop=[eos]):
    print(tokenizer.decode(text.tokens), text.finish)
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

import torch
from torch import Tensor

from trex.kernels.precision import wide
from trex.model.config import ConfigError
from trex.model.decode import decode, prefill
from trex.model.sampling import Sampling
from trex.model.transformer import Transformer

Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class Generated:
    """What was generated after one prompt."""

    tokens: list[int]  # the new ids, a stop id that ended them included
    logprobs: list[float]  # ln of the model's own probability of each, before temperature, top-k and top-p
    finish: Finish


@dataclass(frozen=True)
class Token:
    """One new token of one row."""

    row: int
    id: int
    logprob: float
    finish: Finish | None  # set at the last token of a row


def generate(
    model: Transformer, prompts: Sequence[Sequence[int]] | Tensor, *, max_new_tokens: int,
    temperature: float = 0.0, top_k: int | None = None, top_p: float | None = None,
    stop: int | Collection[int] = (), seed: int | Sequence[int] = 0,
) -> list[Generated]:  # fmt: skip
    """Extend each prompt by up to `max_new_tokens` tokens, or until the id, or one of the ids, in `stop`.

    prompts: lists of ids of any lengths from 1, or [B, S] integers, rows of one length. temperature: 0 takes the
    likeliest token, of equals the lowest id; above 0 draws. top_k, top_p: draw among the k likeliest tokens, and among
    the fewest likeliest that hold the share p of what top_k leaves. seed: of every row's own draws, or one seed per
    row; the same prompt and seed give the same text in any batch, so repeated prompts need seeds of their own.
    Raises ConfigError for an argument that is not as above, and for a model whose logits are not finite.
    """
    new = stream(
        model, prompts, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p,
        stop=stop, seed=seed,
    )  # fmt: skip
    rows: list[list[Token]] = [[] for _ in range(len(prompts))]
    for token in new:
        rows[token.row].append(token)
    return [Generated([t.id for t in row], [t.logprob for t in row], row[-1].finish or "length") for row in rows]


def stream(
    model: Transformer, prompts: Sequence[Sequence[int]] | Tensor, *, max_new_tokens: int,
    temperature: float = 0.0, top_k: int | None = None, top_p: float | None = None,
    stop: int | Collection[int] = (), seed: int | Sequence[int] = 0,
) -> Iterator[Token]:  # fmt: skip
    """The tokens of `generate` as they come, row by row within each step; its arguments and errors."""
    sampling, vocab = Sampling(temperature, top_k, top_p), model.config.vocab_size
    rows = _rows(prompts, vocab)
    if not _is_int(max_new_tokens) or max_new_tokens < 1:
        raise ConfigError(f"max_new_tokens = {max_new_tokens!r}; accepted: integers from 1")
    stops = frozenset([stop] if isinstance(stop, int) else stop)
    for token in stops:
        if not _is_int(token) or not 0 <= token < vocab:
            raise ConfigError(f"stop id {token!r}; accepted: 0 to {vocab - 1}")
    return _stream(model, rows, max_new_tokens, sampling, stops, _generators(seed, len(rows)))


@torch.no_grad()
def _stream(
    model: Transformer, prompts: list[list[int]], max_new_tokens: int, sampling: Sampling, stop: frozenset[int],
    generators: list[torch.Generator],
) -> Iterator[Token]:  # fmt: skip
    device, lengths = model.embed.weight.device, [len(prompt) for prompt in prompts]
    longest = max(lengths)
    padded = [prompt + [0] * (longest - len(prompt)) for prompt in prompts]
    logits, cache = prefill(
        model, torch.tensor(padded, device=device), torch.tensor(lengths, device=device), longest + max_new_tokens - 1
    )
    rows = list(range(len(prompts)))  # those that are not finished
    for count in range(1, max_new_tokens + 1):
        uniform = [float(torch.rand((), generator=generators[row], dtype=torch.float64)) for row in rows]
        chosen = sampling.choose(logits, torch.tensor(uniform, dtype=torch.float64, device=device))
        logprobs = wide(logits).log_softmax(dim=-1).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        open_rows = []
        for place, (row, token, logprob) in enumerate(zip(rows, chosen.tolist(), logprobs.tolist(), strict=True)):
            if not isfinite(logprob):
                raise ConfigError(f"ln p = {logprob} for token {count} of row {row}; accepted: finite logits")
            finish: Finish | None = "stop" if token in stop else "length" if count == max_new_tokens else None
            yield Token(row, token, logprob, finish)
            if finish is None:
                open_rows.append(place)
        if not open_rows:
            return
        if len(open_rows) < len(rows):
            rows, cache = [rows[place] for place in open_rows], cache.keep(open_rows)
            chosen = chosen[torch.tensor(open_rows, device=device)]
        logits = decode(model, chosen, cache)


def _rows(prompts: Sequence[Sequence[int]] | Tensor, vocab: int) -> list[list[int]]:
    if isinstance(prompts, Tensor):
        if prompts.dim() != 2 or prompts.is_floating_point() or prompts.dtype == torch.bool:
            raise ConfigError(f"prompts are {tuple(prompts.shape)} {prompts.dtype}; accepted: [B, S] integers")
        prompts = prompts.tolist()
    if not len(prompts):
        raise ConfigError("no prompts; accepted: at least one")
    for number, row in enumerate(prompts):
        if not isinstance(row, Sequence) or not row:
            raise ConfigError(f"prompt {number} is {row!r}; accepted: a list of one token id or more")
        for token in row:
            if not _is_int(token) or not 0 <= token < vocab:
                raise ConfigError(f"token id {token!r} in prompt {number}; accepted: 0 to {vocab - 1}")
    return [list(row) for row in prompts]


def _generators(seed: int | Sequence[int], rows: int) -> list[torch.Generator]:
    seeds = list(seed) if isinstance(seed, Sequence) else [seed] * rows
    if len(seeds) != rows or not all(_is_int(s) and 0 <= s < 2**63 for s in seeds):
        raise ConfigError(f"seed = {seed!r}; accepted: an integer from 0 to 2^63 - 1, or {rows} of them")
    return [torch.Generator().manual_seed(s) for s in seeds]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
