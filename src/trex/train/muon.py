"""Muon for matrices and AdamW for the rest, in one optimizer: DeepSeek-V4's.

Muon orthogonalises the momentum of each matrix by Newton-Schulz iterations. Source: DeepSeek-V4 report (arXiv
2606.19348); the factor that lets Muon take AdamW's learning rate: Moonlight (arXiv 2502.16982).
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

from trex.model.config import ModelConfig
from trex.train.recipes import TrainConfig, TrainError

Coefficients = tuple[tuple[float, float, float], ...]
HYBRID: Coefficients = ((3.4445, -4.7750, 2.0315),) * 8 + ((2.0, -1.5, 0.5),) * 2  # of one step each
MUON = {"momentum": 0.95, "scale": 0.18, "coefficients": HYBRID, "heights": ()}
ADAMW = {"betas": (0.9, 0.95), "eps": 1e-20}
SETTINGS = {"muon": MUON, "adamw": ADAMW}  # by kind of group, with the report's values
DTYPES = ("bfloat16", "float16", "float32", "float64")  # of products


def orthogonalise(
    matrices: Tensor, coefficients: Coefficients = HYBRID, precision: torch.dtype | None = None
) -> Tensor:
    """U·p(S)·Vᵀ of each U·S·Vᵀ = matrix / its Frobenius norm, p(s) being a·s + b·s³ + c·s⁵ of each step in turn.

    matrices: [m, n] or [E, m, n]; so is the result, in their dtype. precision: of the products; None: bfloat16 for
    float32 on accelerators, else the matrices' own. Raises TrainError for other shapes.
    """
    if matrices.dim() not in (2, 3):
        raise TrainError(f"matrices {list(matrices.shape)}; accepted: [m, n] or [E, m, n]")
    if precision is None:
        narrow = matrices.dtype == torch.float32 and matrices.device.type != "cpu"
        precision = torch.bfloat16 if narrow else matrices.dtype
    x = matrices if matrices.dim() == 3 else matrices.unsqueeze(0)
    least = torch.finfo(x.dtype).tiny  # a matrix of zeros stays one
    x = x / x.abs().amax(dim=(1, 2), keepdim=True).clamp_min(least)  # squares of small gradients would underflow
    x = (x / torch.linalg.matrix_norm(x, keepdim=True).clamp_min(least)).to(precision)
    tall = x.shape[1] > x.shape[2]
    if tall:  # the Gram matrix is that of the shorter side
        x = x.mT
    for a, b, c in coefficients:
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype).reshape(matrices.shape)


def groups(
    named_parameters: Iterable[tuple[str, Tensor]], config: TrainConfig, model: ModelConfig
) -> list[dict[str, Any]]:
    """The groups of HybridMuon for a model's parameters; always the same seven, whichever of them are empty.

    AdamW, with the recipe's betas and eps: embedding, head, compressors' position biases, and all that has fewer than
    two dimensions (norms, sinks, mHC's static biases and gates), the latter without decay, as the trainer has it.
    Muon: all other matrices, also routers, mHC's projections and stacked experts. Where one parameter stacks matrices
    that are logically independent, `heights` says how many rows each has. Not cut: queries, which the report does not
    say to cut by head.
    """
    n = model.hc_mult
    stacked: dict[str, tuple[int, ...]] = {
        "whole": (),
        "output": (model.o_lora_rank,),  # a matrix for each group of heads
        "compressor": (model.head_dim,),  # where blocks overlap, one for either block
        "indexer": (model.index_dim,),
        "streams": (n, n, n * n),  # mHC's pre, post and residual mappings
    }
    parts: dict[str, list[Tensor]] = {part: [] for part in ("decayed", "undecayed", *stacked)}
    for name, parameter in named_parameters:
        parts[_part(name, parameter)].append(parameter)
    plain, decay = {"kind": "adamw", "betas": tuple(config.betas), "eps": config.eps}, config.weight_decay
    adamw_groups = [
        {"params": parts["decayed"], **plain, "weight_decay": decay},
        {"params": parts["undecayed"], **plain, "weight_decay": 0.0},
    ]
    matrices = {"kind": "muon", "weight_decay": decay}
    return adamw_groups + [{"params": parts[k], **matrices, "heights": rows} for k, rows in stacked.items()]


def _part(name: str, parameter: Tensor) -> str:
    """Where a parameter goes, by its name in `trex.model.transformer` and its dimensions."""
    *owners, last = ["", *name.split(".")]
    owner = owners[-1]
    if parameter.dim() < 2:
        return "undecayed"
    if owner in ("embed", "head") or last == "ape":
        return "decayed"
    if last in ("hc_attn_fn", "hc_ffn_fn"):
        return "streams"
    if owner == "wo_a":
        return "output"
    if "compressor" in owners:
        return "indexer" if "indexer" in owners else "compressor"
    return "whole"


class HybridMuon(torch.optim.Optimizer):
    """Muon and AdamW by group, each `kind: "muon" | "adamw"`, with one learning rate and decoupled weight decay.

    Muon's parameters are whole matrices [m, n], matrices stacked by rows (`heights`, in turn), or [E, m, n]:
    M = momentum·M + G; W = (1 - lr·decay)·W - lr·scale·√max(m, n)·NS(momentum·M + G), of each matrix by itself. A slice
    of a matrix looks like a matrix and must not be given. A parameter without a gradient is left alone.

    State, in the parameters' shape and dtype: `momentum_buffer`, or AdamW's `step`, `exp_avg`, `exp_avg_sq`.
    precision: of Muon's products, see `orthogonalise`; kept by name in the groups, which hold what JSON can.
    Raises TrainError for settings and parameters that it cannot take, DTensors among Muon's included.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, *, weight_decay: float = 0.1,
        precision: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        name = None if precision is None else str(precision).removeprefix("torch.")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "precision": name})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, with the report's values for what it does not set. Raises TrainError as the class does."""
        kind = param_group.get("kind")
        if kind not in SETTINGS:
            raise TrainError(f"kind {kind!r} of a group; accepted: {', '.join(SETTINGS)}")
        known = {"params", "kind", *self.defaults, *SETTINGS[kind]}
        if extra := sorted(param_group.keys() - known):
            raise TrainError(f"{extra[0]} in a group of kind {kind}; accepted: {', '.join(sorted(known))}")
        group = {**self.defaults, **SETTINGS[kind], **param_group}
        group["params"] = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        _check(group)
        super().add_param_group(group)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step with the gradients that are there; returns what the closure gives, which may compute them."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if group["kind"] == "adamw":
                self._adamw(parameters, group)
            else:
                for parameter in parameters:
                    self._muon(parameter, group)
        return loss

    def _muon(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state, mu, lr, gradient = self.state[parameter], group["momentum"], group["lr"], cast(Tensor, parameter.grad)
        if not state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        momentum = state["momentum_buffer"].mul_(mu).add_(gradient)
        ahead = torch.add(gradient, momentum, alpha=mu)
        precision = None if group["precision"] is None else getattr(torch, group["precision"])
        heights = group["heights"] and group["heights"] * (parameter.shape[0] // sum(group["heights"]))
        parameter.mul_(1 - lr * group["weight_decay"])
        pairs = zip(parameter.split(heights), ahead.split(heights), strict=True) if heights else [(parameter, ahead)]
        for matrix, direction in pairs:
            factor = lr * group["scale"] * math.sqrt(max(matrix.shape[-2:]))
            matrix.sub_(orthogonalise(direction, group["coefficients"], precision), alpha=factor)

    def _adamw(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        for parameter in parameters:
            if not self.state[parameter]:
                zeros = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                self.state[parameter].update(step=torch.tensor(0.0, dtype=torch.float32), **zeros)
        averages, squares, steps = ([self.state[p][k] for p in parameters] for k in ("exp_avg", "exp_avg_sq", "step"))
        beta1, beta2 = group["betas"]
        adamw(
            parameters, [cast(Tensor, p.grad) for p in parameters], averages, squares, [], steps,
            amsgrad=False, beta1=beta1, beta2=beta2, lr=group["lr"], weight_decay=group["weight_decay"],
            eps=group["eps"], maximize=False,
        )  # fmt: skip


def _check(group: dict[str, Any]) -> None:
    """Raise TrainError for a setting out of range, or a parameter that is not of the group's kind."""
    muon, heights = group["kind"] == "muon", group.get("heights", ())
    for name, accepts, accepted in (
        ("lr", lambda value: 0 <= value < math.inf, "from 0"),
        ("weight_decay", lambda value: 0 <= value < math.inf, "from 0"),
        ("betas", lambda value: len(value) == 2 and all(0 <= beta < 1 for beta in value), "two, 0 to below 1"),
        ("eps", lambda value: 0 < value < math.inf, "above 0"),
        ("momentum", lambda value: 0 <= value < 1, "0 to below 1"),
        ("scale", lambda value: 0 < value < math.inf, "above 0"),
        ("coefficients", lambda value: value and all(len(step) == 3 for step in value), "three of each step"),
        ("heights", lambda value: all(isinstance(rows, int) and rows > 0 for rows in value), "rows, each from 1"),
        ("precision", lambda value: value in (None, *DTYPES), f"None, {', '.join(DTYPES)}"),
    ):
        if name in group and not accepts(group[name]):
            raise TrainError(f"{name} = {group[name]!r}; accepted: {accepted}")
    for parameter in group["params"] if muon else ():
        shape = list(parameter.shape)
        if isinstance(parameter, DTensor):
            raise TrainError(f"a DTensor {shape} among Muon's parameters; accepted: whole matrices")
        if parameter.dim() not in (2, 3) or not parameter.is_floating_point():
            raise TrainError(f"{parameter.dtype} {shape} among Muon's parameters; accepted: real [m, n] or [E, m, n]")
        if heights and (parameter.dim() != 2 or shape[0] % sum(heights)):
            raise TrainError(f"{shape} in matrices of {heights} rows; accepted: [m, n], m a multiple of their sum")
