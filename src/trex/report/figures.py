"""One look for every figure, and the two forms in which each is kept: PNG for static pages, HTML to read numbers."""

import asyncio
import atexit
import base64
import json
import os
import shutil
import threading
import warnings
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio
from plotly.offline import get_plotlyjs

from trex.files import write_atomic
from trex.labels import LABELS, ResultError
from trex.report.png import compact

COLOURS = ("#2f5d8a", "#d9822b", "#4f8a5b", "#a23b4a", "#6f5b9a", "#7a7a7a", "#2b9aa0", "#b8a13a")
# one colour per operation of a pipeline schedule, wherever it is drawn
OPERATION_COLOURS = {"F": "#2f5d8a", "B": "#4f8a5b", "W": "#d9822b", "BW": "#2d6a6a", "idle": "#eeeeee"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
BROWSER_S = 60  # longest wait for Chromium to start or to draw one figure
SCRIPT = "plotly.min.js"  # one copy per run, beside the chapters' folders
AXIS = dict(showline=True, linecolor="#444444", ticks="outside", gridcolor="#ececec", zeroline=False)
TEMPLATE = go.layout.Template(
    layout=dict(
        font=dict(family="Helvetica, Arial, sans-serif", size=13, color="#222222"),
        colorway=list(COLOURS),
        paper_bgcolor="white",
        plot_bgcolor="white",
        width=900,
        height=420,
        margin=dict(l=70, r=30, t=70, b=90),
        xaxis=dict(AXIS, title=dict(standoff=6)),  # pixels: a name close to its axis leaves room for the caption
        yaxis=AXIS,
        legend=dict(orientation="h", yanchor="bottom", y=1.0, xanchor="right", x=1.0),
    )
)


def styled(figure: go.Figure, title: str, *, label: str, note: str = "") -> go.Figure:
    """Apply the template, the title, and a caption that begins with the label. Raises ResultError for a bad label."""
    for part in label.split(" + "):
        if part not in LABELS:
            raise ResultError(f"figure {title!r}: label {part!r}; accepted: {', '.join(LABELS)}, joined by ' + '")
    caption = f"<b>{label}</b>" + (f" · {note}" if note else "")
    figure.update_layout(template=TEMPLATE, title=dict(text=title, x=0.01, xanchor="left", y=0.97, yanchor="top"))
    figure.add_annotation(
        text=caption, xref="paper", yref="paper", x=0, y=0, yshift=-58, xanchor="left", yanchor="top",
        showarrow=False, align="left", font=dict(size=11, color="#555555"),
    )  # fmt: skip
    return figure


def png(figure: go.Figure, scale: float = 1.5) -> bytes | None:
    """The figure as PNG bytes, `scale` pixels to one of the layout's; None, with one warning, without Chromium."""
    browser = _browser()
    return None if browser is None else compact(browser.png(figure, scale))


def write(figure: go.Figure, stem: Path) -> list[str]:
    """Write `stem`.png (where Chromium is there) and `stem`.html; returns the names written."""
    script = stem.parent.parent / SCRIPT
    if not script.exists():
        write_atomic(script, get_plotlyjs().encode())
    page = pio.to_html(figure, include_plotlyjs=f"../{SCRIPT}", full_html=True, div_id=stem.name)
    write_atomic(stem.with_name(stem.name + ".html"), page.encode())
    names = [stem.name + ".html"]
    image = png(figure)
    if image is not None:
        write_atomic(stem.with_name(stem.name + ".png"), image)
        names.append(stem.name + ".png")
    return names


def show(figure: go.Figure) -> Any:
    """Display in a notebook as plotly JSON and, where Chromium is there, PNG (the form that static pages show)."""
    from IPython.display import display

    image = png(figure, scale=1)  # a notebook's column is no wider
    bundle: dict[str, Any] = {"application/vnd.plotly.v1+json": json.loads(pio.to_json(figure))}
    if image is not None:
        bundle["image/png"] = base64.b64encode(image).decode()
    return display(bundle, raw=True)


class _Browser:
    """Chromium, driven from an event loop in a thread of its own.

    kaleido's own synchronous server does the same, but waits for ever where Chromium is missing or dies.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._kaleido = self._wait(self._start())

    def png(self, figure: go.Figure, scale: float) -> bytes:
        """Raises TimeoutError where Chromium does not answer."""
        return bytes(self._wait(self._kaleido.calc_fig(figure, opts={"format": "png", "scale": scale})))

    def close(self) -> None:
        """Stop Chromium."""
        self._wait(self._kaleido.close())

    async def _start(self) -> Any:
        import kaleido

        return await kaleido.Kaleido().__aenter__()

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(BROWSER_S)


def browser_found() -> bool:
    """Whether a browser that can draw PNGs seems to be there; only an attempt tells for sure."""
    return bool(os.environ.get("BROWSER_PATH") or any(map(shutil.which, BROWSERS)))


@cache
def _browser() -> _Browser | None:
    """The one browser that draws all PNGs of this process, stopped at exit; None where it does not start."""
    try:
        browser = _Browser()
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"no PNG figures: Chromium was not found or did not start ({reason})", stacklevel=3)
        return None
    atexit.register(browser.close)
    return browser
