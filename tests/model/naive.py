"""DeepSeek-V4 token by token: a second implementation for the tests, in loops, of one document without batches.

Written from the equations of the report (arXiv 2606.19348) §2 as the official `inference/model.py` reads them. It
shares nothing with `trex.model` but the names of the weights: every vector is one token's, every block, window and
choice a Python list. Autograd gives its gradients.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trex.model.config import ModelConfig

ROWS = ("embed.weight", ".ape", ".experts.w1", ".experts.w2", ".experts.w3")


@dataclass
class Result:
    """Logits [S, vocab] of the trunk and [S - 1, vocab] of the MTP block, the two losses, tokens of each expert."""

    logits: Tensor
    mtp_logits: Tensor
    indexer: Tensor
    balance: Tensor
    loads: list[list[int]]


class Naive:
    """The model of `config` with the weights `w`, float64 under our names. warm_up: CSA without selection."""

    def __init__(self, config: ModelConfig, w: Mapping[str, Tensor], warm_up: bool = False) -> None:
        self.c, self.w, self.warm_up = config, w, warm_up
        # rows taken apart once: autograd would else add a whole matrix of zeros for each use of one of its rows
        self.rows = {name: w[name].unbind() for name in w if name.endswith(ROWS)}

    def run(self, ids: Sequence[int]) -> Result:
        """One document."""
        c, w = self.c, self.w
        self.indexer, self.balance = torch.zeros(()).double(), torch.zeros(()).double()
        self.loads: list[list[int]] = []
        states = [torch.stack([self.rows["embed.weight"][i]] * c.hc_mult) for i in ids]
        for layer, ratio in enumerate(c.compress_ratios):
            states = self.block(f"layers.{layer}.", ratio, states, ids if layer < c.hash_layers else None)
        ahead = []
        for t, state in enumerate(states):
            embedded = (
                self.rows["embed.weight"][ids[t + 1]] if t + 1 < len(ids) else torch.zeros(c.hidden_size).double()
            )
            e = w["mtp.0.e_proj.weight"] @ self.norm(embedded, "mtp.0.enorm")
            ahead.append(torch.stack([e + w["mtp.0.h_proj.weight"] @ self.norm(s, "mtp.0.hnorm") for s in state]))
        ahead = self.block("mtp.0.", 0, ahead, None)
        return Result(
            torch.stack([self.head(state, "") for state in states]),
            torch.stack([self.head(state, "mtp.0.") for state in ahead])[:-1],
            self.indexer,
            self.balance,
            self.loads,
        )

    def norm(self, x: Tensor, name: str | None) -> Tensor:
        y = x / (x.square().mean(dim=-1, keepdim=True) + self.c.eps).sqrt()
        return y if name is None else y * self.w[f"{name}.weight"]

    def head(self, state: Tensor, name: str) -> Tensor:
        c, w = self.c, self.w
        m = w[f"{name}hc_head_fn"] @ self.norm(state.flatten(), None)
        pre = sigmoid(m * w[f"{name}hc_head_scale"] + w[f"{name}hc_head_base"]) + c.eps
        return w["head.weight"] @ self.norm(pre @ state, f"{name}norm")

    def block(self, name: str, ratio: int, states: list[Tensor], ids: Sequence[int] | None) -> list[Tensor]:
        """mHC around attention, then around the MoE. ids: of hash routing."""
        for part in ("attn", "ffn"):
            read = [self.read(state, f"{name}hc_{part}") for state in states]
            xs = [self.norm(h, f"{name}{part}_norm") for h, _, _ in read]
            ys = self.attention(f"{name}attn.", ratio, xs) if part == "attn" else self.moe(f"{name}ffn.", xs, ids)
            states = [
                torch.outer(post, y) + torch.einsum("jk,jd->kd", mix, state)
                for state, y, (_, post, mix) in zip(states, ys, read, strict=True)
            ]
        return states

    def read(self, state: Tensor, name: str) -> tuple[Tensor, Tensor, Tensor]:
        n, eps, scale, base = self.c.hc_mult, self.c.eps, self.w[f"{name}_scale"], self.w[f"{name}_base"]
        m = self.w[f"{name}_fn"] @ self.norm(state.flatten(), None)
        pre = sigmoid(m[:n] * scale[0] + base[:n]) + eps
        post = 2 * sigmoid(m[n : 2 * n] * scale[1] + base[n : 2 * n])
        e = (m[2 * n :] * scale[2] + base[2 * n :]).view(n, n).exp()
        k = e / e.sum(1, keepdim=True) + eps
        for step in range(2 * self.c.sinkhorn_iters - 1):  # columns, then rows and columns in turn
            k = k / (k.sum(step % 2, keepdim=True) + eps)
        return pre @ state, post, k

    def rotate(self, x: Tensor, position: int, ratio: int, sign: int = 1) -> Tensor:
        """Interleaved pairs of the trailing channels as complex numbers."""
        c = self.c
        theta = c.compress_rope_theta if ratio else c.rope_theta
        turned = []
        low, high = (
            c.rope_dim * math.log(c.yarn_original / (2 * math.pi * beta)) / (2 * math.log(theta))
            for beta in (c.yarn_beta_fast, c.yarn_beta_slow)
        )
        for k in range(c.rope_dim // 2):
            f = theta ** (-2 * k / c.rope_dim)
            if ratio:
                ramp = min(max((k - math.floor(low)) / (math.ceil(high) - math.floor(low)), 0), 1)
                f = f / c.yarn_factor * ramp + f * (1 - ramp)
            turned.append(complex(math.cos(position * f), sign * math.sin(position * f)))
        kept = x.shape[-1] - c.rope_dim
        pairs = torch.view_as_complex(x[..., kept:].unflatten(-1, (-1, 2)).contiguous()) * torch.tensor(
            turned, dtype=torch.complex128
        )
        return torch.cat([x[..., :kept], torch.view_as_real(pairs).flatten(-2)], dim=-1)

    def compress(self, name: str, m: int, size: int, xs: list[Tensor]) -> list[Tensor]:
        """One entry per complete block of m tokens; for m = 4 it reads the block before as well."""
        w, entries = self.w, []
        a = [w[f"{name}wkv.weight"] @ x for x in xs]
        z = [w[f"{name}wgate.weight"] @ x + self.rows[f"{name}ape"][t % m] for t, x in enumerate(xs)]
        for i in range(len(xs) // m):
            own = range(i * m, i * m + m)
            if m == 4:
                slots = [(z[t][:size], a[t][:size]) for t in range(i * m - m, i * m) if t >= 0]
                slots += [(z[t][size:], a[t][size:]) for t in own]
            else:
                slots = [(z[t], a[t]) for t in own]
            share = torch.stack([gate for gate, _ in slots]).softmax(dim=0)
            mean = total(share * torch.stack([value for _, value in slots]))
            entries.append(self.rotate(self.norm(mean, f"{name}norm"), i * m, m))
        return entries

    def attention(self, name: str, ratio: int, xs: list[Tensor]) -> list[Tensor]:
        c, w, ys = self.c, self.w, []
        qrs = [self.norm(w[f"{name}wq_a.weight"] @ x, f"{name}q_norm") for x in xs]
        kvs = [self.rotate(self.norm(w[f"{name}wkv.weight"] @ x, f"{name}kv_norm"), t, ratio) for t, x in enumerate(xs)]
        entries = self.compress(f"{name}compressor.", ratio, c.head_dim, xs) if ratio else []
        index_keys: list[Tensor] = []
        if ratio == 4:
            detached = [x.detach() for x in xs]
            index_keys = self.compress(f"{name}indexer.compressor.", 4, c.index_dim, detached)
        for t, qr in enumerate(qrs):
            chosen = list(range((t + 1) // ratio)) if ratio else []
            if ratio == 4 and chosen:
                scores = self.scores(f"{name}indexer.", t, xs[t].detach(), qr.detach(), index_keys[: len(chosen)])
                if not self.warm_up:
                    of = scores.tolist()
                    chosen = sorted(chosen, key=lambda j: (-of[j], j))[: c.index_topk]
            q = self.norm((w[f"{name}wq_b.weight"] @ qr).view(c.num_heads, c.head_dim), None)
            keys = torch.stack(kvs[max(0, t - c.window + 1) : t + 1] + [entries[j] for j in chosen])
            e = (self.rotate(q, t, ratio) @ keys.T / c.head_dim**0.5).exp()
            p = e / (w[f"{name}attn_sink"].exp() + e.sum(1)).unsqueeze(1)
            outs = self.rotate(p @ keys, t, ratio, sign=-1)
            if ratio == 4 and chosen:
                mass = total(p[:, -len(chosen) :].detach())
                mine, teacher = scores[chosen].softmax(0), mass / total(mass)
                self.indexer = self.indexer + total(teacher * (teacher / mine).log())
            group, matrices = c.num_heads // c.o_groups, w[f"{name}wo_a.weight"].chunk(c.o_groups)
            z = [matrices[g] @ outs[g * group : g * group + group].flatten() for g in range(c.o_groups)]
            ys.append(w[f"{name}wo_b.weight"] @ torch.cat(z))
        return ys

    def scores(self, name: str, t: int, x: Tensor, qr: Tensor, keys: list[Tensor]) -> Tensor:
        c = self.c
        q = self.rotate((self.w[f"{name}wq_b.weight"] @ qr).view(c.index_heads, c.index_dim), t, 4)
        weight = self.w[f"{name}weights_proj.weight"] @ x / (c.index_heads * c.index_dim) ** 0.5
        return weight @ (q @ torch.stack(keys).T).clamp(min=0)

    def moe(self, name: str, xs: list[Tensor], ids: Sequence[int] | None) -> list[Tensor]:
        c, w, ys = self.c, self.w, []
        count, shares = [0] * c.num_experts, torch.zeros(c.num_experts).double()
        for t, x in enumerate(xs):
            s = (1 + (w[f"{name}gate.weight"] @ x).exp()).log().sqrt()
            shares = shares + s / total(s)
            if ids is None:
                biased = (s + w[f"{name}gate.bias"]).tolist()
                chosen = sorted(range(c.num_experts), key=lambda e: -biased[e])[: c.experts_per_token]
            else:
                chosen = w[f"{name}gate.tid2eid"][ids[t]].tolist()
            y = self.swiglu(x, *(w[f"{name}shared_experts.w{i}.weight"] for i in (1, 2, 3)))
            for e in chosen:
                count[e] += 1
                weight = c.route_scale * s[e] / total(s[chosen])
                y = y + weight * self.swiglu(x, *(self.rows[f"{name}experts.w{i}"][e] for i in (1, 2, 3)))
            ys.append(y)
        self.loads.append(count)
        if ids is None:  # Σ_e f_e·P_e with f_e = E/(kT)·count_e and P_e the mean share, times T tokens
            f = torch.tensor(count).double() * c.num_experts / (c.experts_per_token * len(xs))
            self.balance = self.balance + total(f * shares)
        return ys

    def swiglu(self, x: Tensor, w1: Tensor, w2: Tensor, w3: Tensor) -> Tensor:
        limit = self.c.swiglu_limit
        gate, up = (w1 @ x).clamp(max=limit), (w3 @ x).clamp(-limit, limit)
        return w2 @ (gate * sigmoid(gate) * up)


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def total(x: Tensor) -> Tensor:
    """Over the first dimension."""
    return x.sum(dim=0)
