"""Fine-tuning's loss on a dialogue and its gradients are transformers' with the same mask, in float64."""

import torch
from tests.model.comparing import gradients, lively, unequal
from tests.model.oracle import hf_model, random_weights
from torch.nn.functional import cross_entropy

from trex.checkpoint.names import from_transformers
from trex.data.chat_format import SPECIAL
from trex.data.dialogue_rows import packed, texts
from trex.data.tokens import IGNORE, Tokenizer
from trex.model.config import ModelConfig

MESSAGES = [
    {"role": "system", "content": "You model decision problems."},
    {"role": "user", "content": "Two products, three machines. " * 6 + "Which plan costs least?"},
    {"role": "assistant", "content": "m.x = pyo.Var(domain=pyo.NonNegativeReals)\n" * 3},
    {"role": "user", "content": "And with whole lots?"},
    {"role": "assistant", "content": "m.x = pyo.Var(domain=pyo.NonNegativeIntegers)\n"},
]


def test_loss_and_gradients_on_a_row_are_transformers() -> None:
    """The mask leaves what the assistant writes, the ends of its turns too."""
    tokenizer = Tokenizer.fit(texts(MESSAGES), special=SPECIAL)
    rows = packed([MESSAGES], tokenizer, 256).rows
    tokens, doc_ids, targets = rows.batch(torch.tensor([0]))
    trained = targets != IGNORE
    # both targets and others, and more positions than a block of HCA
    assert 20 < int(trained.sum()) < 0.7 * tokens.shape[1] and tokens.shape[1] > 128
    config, seed = ModelConfig.tiny(vocab_size=tokenizer.vocab_size, swiglu_limit=0.5), 7
    model, oracle = lively(config, seed), hf_model(config, random_weights(config, seed), torch.float64)
    ours = model(tokens, doc_ids, targets, mtp=False).losses["lm"] / trained.sum()
    logits = oracle(tokens).logits
    # as its ForCausalLMLoss has it, which computes in float32: logits at t against the label at t + 1
    labels = torch.full_like(tokens, IGNORE)
    labels[:, 1:] = torch.where(trained[:, :-1], tokens[:, 1:], IGNORE)
    last = targets[:, -1:]  # whose input no row holds
    shifted = torch.cat([labels[:, 1:], last], dim=1)
    theirs = cross_entropy(logits.flatten(0, 1), shifted.flatten(), ignore_index=IGNORE)
    assert abs(ours.item() - theirs.item()) <= 1e-9
    found = gradients(ours, model)
    expected = from_transformers(gradients(theirs, oracle))
    assert len(found) > 50 and unequal(found, expected, 1e-9) == {}
