"""Figures of training runs."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from trex.report.figures import COLOURS
from trex.report.text import align
from trex.train.recipes import TrainConfig

RECIPE_ROWS = {
    "optimizer steps": "steps", "sequences per step": "global_batch", "positions per sequence": "seq_len",
    "peak learning rate": "peak_lr", "least learning rate": "min_lr", "warm-up steps": "warmup_steps",
    "AdamW betas": "betas", "weight decay": "weight_decay", "gradient clipping (global norm)": "clip_norm",
}  # fmt: skip


def loss_curve(
    losses: Mapping[str, Sequence[float]],
    held_out: Mapping[str, Sequence[float]],
    references: Mapping[str, float],
    smoothing: float = 0.7,
) -> go.Figure:
    """Loss over tokens: each step faint, their running average, held-out points, and reference losses as lines.

    losses: columns `tokens` and `loss`; held_out: columns `tokens` and `held_out`; references: losses by name, drawn
    across. All losses in nats per token. smoothing: weight of the past in the running average, 0 to below 1.
    """
    tokens, loss = list(losses["tokens"]), list(losses["loss"])
    held_tokens, held = list(held_out["tokens"]), list(held_out["held_out"])
    figure = go.Figure()
    figure.add_scatter(
        x=tokens, y=loss, mode="lines", name="training, each step", line=dict(color="#b9cbdc", width=1.2)
    )
    average = running_average(loss, smoothing)
    figure.add_scatter(
        x=tokens, y=average, mode="lines", name="training, average", line=dict(color=COLOURS[0], width=2.5)
    )
    figure.add_scatter(
        x=held_tokens, y=held, mode="lines+markers", name="held-out documents",
        line=dict(color=COLOURS[1], width=2.5), marker=dict(size=8),
    )  # fmt: skip
    right = max([*tokens, *held_tokens])
    for name, value in references.items():
        figure.add_hline(value, line=dict(color="#777777", width=1, dash="dash"))
        figure.add_annotation(
            text=f"{name} {value:.2f}", x=1.01, xref="paper", xanchor="left", y=value, yanchor="middle",
            showarrow=False, font=dict(size=11, color="#555555"),
        )  # fmt: skip
    figure.update_layout(margin=dict(r=150))
    figure.update_xaxes(title="tokens trained on", range=[0, right * 1.01], tickformat=",")
    figure.update_yaxes(title="loss (nats per token)")
    return figure


def running_average(values: Sequence[float], smoothing: float) -> list[float]:
    """Exponential average that starts unbiased: the weights of the values seen so far are normalised to one."""
    averages, total, weight = [], 0.0, 0.0
    for value in values:
        total = smoothing * total + (1 - smoothing) * value
        weight = smoothing * weight + (1 - smoothing)
        averages.append(total / weight)
    return averages


def recipe_table(recipes: Mapping[str, TrainConfig]) -> str:
    """Recipes side by side as text, one constant per line, and last the most tokens that they can train on."""
    rows = [["", *recipes]]
    rows += [[text, *(_plain(getattr(r, name)) for r in recipes.values())] for text, name in RECIPE_ROWS.items()]
    rows += [["tokens at most", *(f"{r.steps * r.global_batch * r.seq_len:,}" for r in recipes.values())]]
    return align(rows)


def _plain(value: object) -> str:
    return ", ".join(map(_plain, value)) if isinstance(value, tuple) else f"{value:g}"
