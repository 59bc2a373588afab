"""The one look of figures, and their two forms; without Chromium there is one warning and no PNG, and no waiting."""

import base64
import json
import os
import struct
import subprocess
import sys
import zlib
from functools import cache
from pathlib import Path

import plotly.graph_objects as go
import pytest

from trex.labels import LABELS, ResultError
from trex.report import figures
from trex.report.figures import SCRIPT, TEMPLATE, png, show, styled, write


def bars(colour: str = "#123456") -> go.Figure:
    return go.Figure(go.Bar(x=["a", "b"], y=[1.5, 2.25], marker_color=colour))


@cache
def chromium() -> bool:
    return figures._browser() is not None


def needs_chromium() -> None:
    if not chromium():
        pytest.skip("Chromium is not installed")


@pytest.mark.parametrize("label", [*LABELS, "published + modelled"])
def test_the_caption_begins_with_the_label(label: str) -> None:
    figure = styled(bars(), "Step time", label=label, note="table 2")
    assert [note.text for note in figure.layout.annotations] == [f"<b>{label}</b> · table 2"]
    assert figure.layout.title.text == "Step time"
    assert styled(bars(), "Step time", label=label).layout.annotations[0].text == f"<b>{label}</b>"


@pytest.mark.parametrize("label", ["", "guessed", "published+modelled", "published + guessed", "Published"])
def test_a_figure_without_a_label_is_refused(label: str) -> None:
    with pytest.raises(ResultError, match=r"figure 'Step time': label .*; accepted: published, derived"):
        styled(bars(), "Step time", label=label)


def test_every_figure_has_the_template() -> None:
    layout = styled(bars(), "t", label="derived").layout.template.layout
    assert layout == TEMPLATE.layout and layout.paper_bgcolor == "white" and (layout.width, layout.height) == (900, 420)


def test_html_holds_the_numbers_and_shares_one_script(tmp_path: Path) -> None:
    (tmp_path / "02_overlap").mkdir()
    names = write(bars(), tmp_path / "02_overlap" / "bubble")
    page = (tmp_path / "02_overlap" / "bubble.html").read_text()
    assert "bubble.html" in names and '"y":[1.5,2.25]' in page
    assert f'src="../{SCRIPT}"' in page and "cdn" not in page and len(page) < 20_000
    script = tmp_path / SCRIPT
    assert script.stat().st_size > 1_000_000
    before = script.stat().st_mtime_ns
    write(bars(), tmp_path / "02_overlap" / "again")
    assert script.stat().st_mtime_ns == before


def test_files_repeat_byte_for_byte(tmp_path: Path) -> None:
    for run in ("one", "two"):
        (tmp_path / run / "c").mkdir(parents=True)
        write(styled(bars(), "t", label="derived"), tmp_path / run / "c" / "n")
    files = [{path.name: path.read_bytes() for path in (tmp_path / run / "c").iterdir()} for run in ("one", "two")]
    assert files[0] == files[1] and set(files[0]) == {"n.html"} | ({"n.png"} if chromium() else set())


def test_png_has_the_templates_size_and_the_figures_colour() -> None:
    needs_chromium()
    image = png(styled(bars("#12a456"), "t", label="derived"))
    assert image is not None and image[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", image[16:24]) == (1350, 630)  # 900 × 420 at scale 1.5
    palette = image.partition(b"PLTE")[2]
    colours = [tuple(palette[3 * i : 3 * i + 3]) for i in range(256)]
    index = colours.index((0x12, 0xA4, 0x56))
    body = image.partition(b"IDAT")[2]
    assert 0.1 < zlib.decompressobj().decompress(body).count(index) / (1350 * 630) < 0.9


def test_show_displays_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, object]] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: shown.append(bundle))
    show(bars())
    (bundle,) = shown
    assert bundle["application/vnd.plotly.v1+json"] == json.loads(bars().to_json())
    assert ("image/png" in bundle) == chromium()
    if chromium():
        assert base64.b64decode(str(bundle["image/png"]))[:4] == b"\x89PNG"


@pytest.mark.parametrize("browser", ["/nowhere/chromium", "/bin/true"])  # missing, or not starting
def test_without_chromium_there_is_one_warning_and_no_png(browser: str, tmp_path: Path) -> None:
    program = """
import json, pathlib, sys, warnings
import IPython.display
import plotly.graph_objects as go
from trex.report import figures
shown = []
IPython.display.display = lambda bundle, raw: shown.append(bundle)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    image = figures.png(go.Figure())
    names = figures.write(go.Figure(), pathlib.Path(sys.argv[1]) / "n")
    figures.show(go.Figure())
print(json.dumps([image, names, list(shown[0]), [str(item.message) for item in caught]]))
"""
    (tmp_path / "c").mkdir()
    command = [sys.executable, "-c", program, str(tmp_path / "c")]
    environment = {**os.environ, "BROWSER_PATH": browser}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    image, names, kinds, (warning,) = json.loads(done.stdout)
    assert (image, names, kinds) == (None, ["n.html"], ["application/vnd.plotly.v1+json"])
    assert warning.startswith("no PNG figures: Chromium was not found or did not start")
