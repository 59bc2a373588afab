"""Figures of training runs."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from trex.report.figures import COLOURS
from trex.report.text import align
from trex.train.recipes import TrainConfig

RECIPE_ROWS = {
    "optimizer steps": "steps", "sequences per step": "global_batch", "positions per sequence": "seq_len",
    "peak learning rate": "peak_lr", "least learning rate": "min_lr", "warm-up steps": "warmup_steps",
    "AdamW betas": "betas", "weight decay": "weight_decay", "gradient clipping (global norm)": "clip_norm",
    "weight of the MTP loss": "mtp_weight", "weight of the indexer's loss": "indexer_weight",
    "weight of the balance loss": "balance_weight", "speed of the selection biases": "bias_speed",
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


def auxiliary_losses(losses: Mapping[str, Sequence[float]], smoothing: float = 0.7) -> go.Figure:
    """MTP loss beside the language model's, indexer loss and balance loss over tokens, a panel each.

    losses: columns `tokens`, `loss`, `mtp`, `indexer` and `balance`, as measured, without their weights. Each step
    faint, and the running average with weight `smoothing` of the past.
    """
    panels = {
        "multi-token prediction": {"next token": "loss", "token after it (MTP)": "mtp"},
        "indexer": {"indexer": "indexer"},
        "sequence balance": {"balance": "balance"},
    }
    colours = dict(zip(("loss", "mtp", "indexer", "balance"), COLOURS, strict=False))
    figure = make_subplots(cols=len(panels), subplot_titles=list(panels), horizontal_spacing=0.09)
    tokens = list(losses["tokens"])
    for column, lines in enumerate(panels.values(), start=1):
        for name, key in lines.items():
            faint, bold = dict(color=colours[key], width=1), dict(color=colours[key], width=2.5)
            figure.add_scatter(
                x=tokens,
                y=list(losses[key]),
                mode="lines",
                line=faint,
                opacity=0.35,
                showlegend=False,
                col=column,
                row=1,
            )
            figure.add_scatter(
                x=tokens, y=running_average(losses[key], smoothing), mode="lines", name=name, line=bold,
                showlegend=column == 1, col=column, row=1,
            )  # fmt: skip
    figure.update_xaxes(title="tokens trained on", tickformat="~s")
    for column, unit in enumerate(("nats per token", "KL (nats per token)", "Σ f·P over layers"), start=1):
        figure.update_yaxes(title=unit, col=column, row=1)
    figure.update_layout(width=1100, margin=dict(t=110), legend=dict(x=0, xanchor="left", y=1.1))
    return figure


def load_imbalance(
    tokens: Sequence[float], layers: Mapping[str, Sequence[float]], worst: float, smoothing: float = 0.7
) -> go.Figure:
    """Load of the fullest expert over the mean load of its layer, a line per layer, averaged over steps.

    tokens: tokens trained on. layers: by name, a value per step. worst: the most that is possible, experts over
    experts per token, drawn as a dashed line, as is perfect balance, 1.
    """
    figure = go.Figure()
    for (name, values), colour in zip(layers.items(), (*COLOURS, *COLOURS), strict=False):
        figure.add_scatter(
            x=list(tokens),
            y=running_average(values, smoothing),
            mode="lines",
            name=name,
            line=dict(color=colour, width=2.5),
        )
    for value, name in ((1.0, "even"), (worst, "same experts for all")):
        figure.add_hline(value, line=dict(color="#777777", width=1, dash="dash"))
        figure.add_annotation(
            text=name, x=1.01, xref="paper", xanchor="left", y=value, yanchor="middle",
            showarrow=False, font=dict(size=11, color="#555555"),
        )  # fmt: skip
    figure.update_layout(margin=dict(r=150))
    figure.update_xaxes(title="tokens trained on", tickformat=",")
    figure.update_yaxes(title="fullest expert / mean")
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
