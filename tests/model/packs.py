"""Packs of documents for the tests: how they are drawn, and what the model makes of them packed and one by one."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tests.model.comparing import draw, gradients
from torch import Tensor
from torch.nn.functional import cross_entropy

from trex.model.transformer import Transformer

IGNORE = -100


@dataclass(frozen=True)
class Pack:
    """Rows of documents and padding, all [B, S]; targets are the tokens after each in its document."""

    tokens: Tensor
    doc_ids: Tensor
    targets: Tensor
    documents: list[tuple[int, slice]]  # row and places of each


@dataclass(frozen=True)
class Result:
    """Summed over documents, but for logits, which are by document: [length, vocab], MTP's one shorter."""

    logits: list[Tensor]
    mtp_logits: list[Tensor]
    losses: dict[str, Tensor]
    counts: dict[str, int]
    loads: Tensor
    gradients: dict[str, Tensor]  # of the sum of all losses


def pack(rows: Sequence[Sequence[int]], seed: int = 0, vocab: int = 512) -> Pack:
    """Rows of lengths of documents, negative ones of padding; all rows add up to the same.

    Ids differ between neighbours and come again later: 0, 1 and 2 are documents, -1 and -7 padding. Padding holds
    tokens like any other. The last token of a document has a target, too; one target in ten is left out.
    """
    noise = draw(seed)
    size = sum(map(abs, rows[0]))
    tokens = torch.randint(0, vocab, (len(rows), size), generator=noise)
    doc_ids, targets = torch.full_like(tokens, 99), torch.full_like(tokens, IGNORE)
    documents = []
    for row, lengths in enumerate(rows):
        assert sum(map(abs, lengths)) == size
        place, before = 0, 99
        for length in lengths:
            free = [i for i in ((0, 1, 2) if length > 0 else (-1, -7)) if i != before]
            before = free[int(torch.randint(len(free), (), generator=noise))]
            here = slice(place, place + abs(length))
            doc_ids[row, here] = before
            if length > 0:
                targets[row, place : here.stop - 1] = tokens[row, place + 1 : here.stop]
                targets[row, here.stop - 1] = torch.randint(vocab, (), generator=noise)
                documents.append((row, here))
            place = here.stop
    targets[torch.rand(targets.shape, generator=noise) < 0.1] = IGNORE
    return Pack(tokens, doc_ids, targets, documents)


def random_rows(seed: int, rows: int = 2, size: int = 150) -> list[list[int]]:
    """Short and long documents and runs of padding, and now and then a row of padding alone."""
    noise = draw(seed)

    def below(n: int) -> int:
        return int(torch.randint(n, (), generator=noise))

    result = []
    for row in range(rows):
        lengths: list[int] = [-size] if row and below(5) == 0 else []
        while (left := size - sum(map(abs, lengths))) > 0:
            length = min(left, 1 + below((4, 12, size)[below(3)]))
            lengths.append(-length if below(4) == 0 else length)
        result.append(lengths)
    return result


def packed(model: Transformer, given: Pack, mode: str = "sparse") -> Result:
    """All of it in one batch."""
    with torch.no_grad():
        plain = model(given.tokens, given.doc_ids, indexer=mode)
    assert plain.logits is not None and plain.mtp_logits is not None
    out = model(given.tokens, given.doc_ids, given.targets, indexer=mode)
    assert out.logits is None and out.mtp_logits is None and out.loads is not None
    assert all(torch.equal(loss, out.losses[name]) for name, loss in plain.losses.items())
    return Result(
        [plain.logits[row, here] for row, here in given.documents],
        [plain.mtp_logits[row, here][:-1] for row, here in given.documents],
        {name: loss.detach() for name, loss in out.losses.items()},
        {name: int(count) for name, count in out.counts.items()},
        out.loads,
        gradients(torch.stack(list(out.losses.values())).sum(), model),
    )


def separate(model: Transformer, given: Pack, mode: str = "sparse") -> Result:
    """Each document in a batch of its own, without document ids; then summed. Cross-entropies are taken of logits."""
    results = [_alone(model, given.tokens[at], given.targets[at], mode) for at in given.documents]
    first = results[0]
    return Result(
        [logits for r in results for logits in r.logits],
        [logits for r in results for logits in r.mtp_logits],
        {name: torch.stack([r.losses[name] for r in results]).sum() for name in first.losses},
        {name: sum(r.counts[name] for r in results) for name in first.counts},
        torch.stack([r.loads for r in results]).sum(0),
        {name: torch.stack([r.gradients[name] for r in results]).sum(0) for name in first.gradients},
    )


def _alone(model: Transformer, tokens: Tensor, targets: Tensor, mode: str) -> Result:
    """tokens, targets: [length]. At t the head predicts the target of t, the MTP block that of t + 1."""
    out = model(tokens[None], indexer=mode)
    assert out.logits is not None and out.mtp_logits is not None and out.loads is not None
    logits, mtp_logits = out.logits[0], out.mtp_logits[0, :-1]
    losses = {
        "lm": cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum"),
        "mtp": cross_entropy(mtp_logits, targets[1:], ignore_index=IGNORE, reduction="sum"),
        **out.losses,
    }
    counts = {"lm": (targets != IGNORE).sum(), "mtp": (targets[1:] != IGNORE).sum(), **out.counts}
    return Result(
        [logits.detach()],
        [mtp_logits.detach()],
        {name: loss.detach() for name, loss in losses.items()},
        {name: int(count) for name, count in counts.items()},
        out.loads,
        gradients(torch.stack(list(losses.values())).sum(), model),
    )
