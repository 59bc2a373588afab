"""The run: every file accounted for, licences, duplicates, benchmarks, limits, and the same bytes after any kill."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.data.ingest.made import CHINESE, GERMAN, ROUTING, SIMPLEX, pdf, text

from trex.data.decontamination import Benchmarks
from trex.data.ingest.prepare import Rules
from trex.data.ingest.reading import Limits
from trex.data.ingest.run import Funnel, Here, ingest
from trex.data.problem import DataError

for needed in ("pypdf", "selectolax", "py3langid"):
    pytest.importorskip(needed)

FILES = ("documents.jsonl", "refusals.jsonl", "settings.json")


def rows(folder: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def gates(folder: Path) -> dict[str, str]:
    return {row["file"].partition("/")[2]: row["gate"] for row in rows(folder, "refusals")}


def here(folder: Path, *inputs: Path, **options) -> Funnel:
    return ingest(folder, inputs, pool=Here, **options)


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def jsonl(*found: object) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with all formats and all kinds of trouble."""
    folder = tmp_path / "library"
    (folder / "sub" / ".git").mkdir(parents=True)
    (folder / "a.md").write_text(f"# Simplex\n\n{SIMPLEX}\n")
    (folder / "b.html").write_text(f"<title>Routes</title><body><p>{ROUTING}</p></body>")
    (folder / "b.html.license").write_text("SPDX-FileCopyrightText: 2026 A\nSPDX-License-Identifier: CC-BY-4.0\n")
    (folder / "c.PDF").write_bytes(pdf([text(10, 14).split("\n")], "Made"))
    (folder / "c.PDF.licence").write_text("CC0-1.0\n")
    (folder / "d.jsonl").write_text(
        jsonl(
            {"text": text(11), "title": "Eleven", "licence": "MIT", "source": "https://example.org/11"},
            {"text": text(12)},
            {"words": text(12)},
            {"text": SIMPLEX.upper(), "licence": "MIT"},
        )
        + "\n"
        + jsonl({"text": GERMAN, "license": "MIT"})
    )
    (folder / "e.txt").write_text(SIMPLEX.replace("Degenerate", "Some"))
    (folder / "empty.txt").write_text("")
    (folder / "f.bin").write_bytes(b"\x00\x01")
    (folder / "junk.txt").write_bytes(bytes(range(256)) * 9)
    (folder / "sub" / "copy.txt").write_text(ROUTING + "\n")
    (folder / "sub" / "latin.txt").write_bytes("Erlöse".encode("latin-1"))
    (folder / "sub" / ".git" / "config").write_text("x")
    (folder / "sub" / "secret.txt").symlink_to("/etc/hostname")
    (folder / "sub" / "short.txt").write_text("The plan of the day is too short to be of use to us.")
    os.mkfifo(folder / "sub" / "pipe.txt")
    return folder


def test_every_file_is_a_document_or_a_refusal(library: Path, tmp_path: Path):
    out = tmp_path / "out"
    funnel = here(out, library, rules=Rules(licence="CC-BY-SA-4.0"))
    found = {row["file"].partition("/")[2]: row for row in rows(out, "documents")}
    assert {name: (row["licence"], row["source"], row["title"], row["format"]) for name, row in found.items()} == {
        "a.md": ("CC-BY-SA-4.0", "library/a.md", "Simplex", "markdown"),
        "b.html": ("CC-BY-4.0", "library/b.html", "Routes", "html"),
        "c.PDF": ("CC0-1.0", "library/c.PDF", "Made", "pdf"),
        "d.jsonl:1": ("MIT", "https://example.org/11", "Eleven", "jsonl"),
        "d.jsonl:2": ("CC-BY-SA-4.0", "library/d.jsonl:2", "d", "jsonl"),
    }
    assert found["a.md"]["text"] == f"# Simplex\n\n{SIMPLEX}"
    assert found["c.PDF"]["text"].split() == text(10, 14).split()
    assert all(row["language"] == "en" for row in found.values())
    assert all(hashlib.sha256(row["text"].encode()).hexdigest() == row["sha256"] for row in found.values())
    assert gates(out) == {
        "d.jsonl:3": "json", "d.jsonl:4": "near-duplicate", "d.jsonl:6": "language", "e.txt": "near-duplicate",
        "empty.txt": "empty", "f.bin": "format", "junk.txt": "binary", "sub/.git": "hidden",
        "sub/copy.txt": "near-duplicate", "sub/latin.txt": "encoding", "sub/pipe.txt": "format",
        "sub/secret.txt": "link", "sub/short.txt": "quality",
    }  # fmt: skip
    numbers = sorted(row["number"] for name in ("documents", "refusals") for row in rows(out, name))
    assert numbers == list(range(18))
    assert (funnel.read, funnel.documents, funnel.refused.total()) == (18, 5, 13)
    assert all(row["reason"] for row in rows(out, "refusals"))
    last = funnel.text().splitlines()
    assert last[1].split() == ["18"] and last[-2].split()[-1] == "5" and last[-1].startswith("5 documents, ")


def test_without_a_licence_a_document_is_refused(library: Path, tmp_path: Path):
    here(tmp_path / "out", library)
    assert [row["file"] for row in rows(tmp_path / "out", "documents")] == [
        "library/b.html", "library/c.PDF", "library/d.jsonl:1", "library/d.jsonl:4",
    ]  # fmt: skip
    found = gates(tmp_path / "out")
    assert {name for name, gate in found.items() if gate == "licence"} >= {"a.md", "d.jsonl:2", "e.txt", "sub/copy.txt"}


@pytest.mark.parametrize(
    ("side", "licence"),
    [
        ("MIT", "MIT"),
        ("\n Licence: CC-BY-4.0 \nSource: https://example.org\n", "CC-BY-4.0"),
        ("unknown", None),
        ("", None),
        ("Source: https://example.org", None),
        ("All of this\nis prose", None),
    ],
)
def test_a_licence_beside_the_file(side: str, licence: str | None, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(SIMPLEX)
    (tmp_path / "in" / "a.txt.licence").write_text(side)
    here(tmp_path / "out", tmp_path / "in", rules=Rules(licence="MIT-0"))
    if licence is None:
        assert gates(tmp_path / "out") == {"a.txt": "licence"}
    else:
        (row,) = rows(tmp_path / "out", "documents")
        assert row["licence"] == licence
        assert row["source"] == ("https://example.org" if "Source" in side else "in/a.txt")


@pytest.mark.parametrize(
    ("side", "reason"),
    [
        (b"", "names none"),
        (b" \n\t\n", "names none"),
        (b"CC-BY-4.0 \xa9 Universit\xe9", "byte 10 (0xa9) is no UTF-8"),
        ("x" * 201, "a line of 201 characters; accepted: up to 200"),
        (f"SPDX-License-Identifier: MIT\nSource: https://example.org/{'x' * 200}", "a line of 220 characters"),
        ("MIT\n" * 20_000, "more than 65,536 bytes"),
        ("M\x00IT", "U+0000"),
        ("MIT\x1b[2J", "U+001B"),
        ("MIT\x85", "U+0085"),
        ("\u202eTIM", "U+202E"),
        ("MIT\u2066 or not", "U+2066"),
        ("MI\u200bT", "U+200B"),
        ("MIT \ufffd", "U+FFFD"),
    ],
)
def test_what_beside_a_file_is_no_line_of_text_is_refused(side: str | bytes, reason: str, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(SIMPLEX)
    (tmp_path / "in" / "b.txt").write_text(ROUTING)
    (tmp_path / "in" / "a.txt.licence").write_bytes(side.encode() if isinstance(side, str) else side)
    (tmp_path / "in" / "b.txt.licence").write_text("\ufeffLicence Ouverte 2.0 — " + "é" * 170 + "\r\n")
    here(tmp_path / "out", tmp_path / "in", rules=Rules(licence="MIT-0"))
    (row,) = rows(tmp_path / "out", "refusals")
    assert (row["file"], row["gate"]) == ("in/a.txt", "licence")
    assert row["reason"].startswith("a.txt.licence") and reason in row["reason"]
    (row,) = rows(tmp_path / "out", "documents")
    assert row["licence"] == "Licence Ouverte 2.0 — " + "é" * 170


@pytest.mark.parametrize("kind", ["link", "dangling", "folder"])
def test_a_licence_that_is_no_file_is_not_passed_over(kind: str, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(SIMPLEX)
    (tmp_path / "mit").write_text("MIT")
    side = tmp_path / "in" / "a.txt.licence"
    if kind == "folder":
        side.mkdir()
    else:
        side.symlink_to(tmp_path / ("mit" if kind == "link" else "nowhere"))
    here(tmp_path / "out", tmp_path / "in", rules=Rules(licence="MIT-0"))
    (row,) = rows(tmp_path / "out", "refusals")
    assert row["gate"] == "licence" and "no regular file" in row["reason"]


def test_rows_whose_licence_is_no_text_do_not_get_the_one_for_all(tmp_path: Path):
    path = tmp_path / "in.jsonl"
    stated = [5, ["MIT"], {}, False, None, "CC0-1.0"]
    path.write_text(jsonl(*({"text": text(k), "licence": value} for k, value in enumerate(stated))))
    here(tmp_path / "out", path, rules=Rules(licence="MIT-0"))
    assert [(row["file"], row["gate"]) for row in rows(tmp_path / "out", "refusals")] == [
        (f"in.jsonl:{k}", "licence") for k in range(1, 5)
    ]
    assert [row["licence"] for row in rows(tmp_path / "out", "documents")] == ["MIT-0", "CC0-1.0"]


def test_other_languages_and_relevance(tmp_path: Path):
    path = tmp_path / "in.jsonl"
    path.write_text(jsonl(*({"text": t, "licence": "MIT"} for t in (GERMAN, CHINESE, SIMPLEX, text(1)))))
    here(tmp_path / "any", path, rules=Rules(languages=()))
    assert [row["language"] for row in rows(tmp_path / "any", "documents")] == ["de", "zh", "en", "en"]
    here(tmp_path / "some", path, rules=Rules(languages=("en", "zh"), relevance=30))
    assert [row["language"] for row in rows(tmp_path / "some", "documents")] == ["zh", "en"]
    assert [row["gate"] for row in rows(tmp_path / "some", "refusals")] == ["language", "relevance"]


def test_duplicates_and_benchmarks(tmp_path: Path):
    made = [text(seed) for seed in range(4)]
    again = made[0].split("\n")
    path, folder = tmp_path / "in.jsonl", tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "test.jsonl").write_text(jsonl({"en_question": "x " + " ".join(made[3].split()[20:40])}))
    (folder / "short.txt").write_text(" ".join(made[1].split()[:12]))
    near = "\n".join([*again[:-1], again[-1].rstrip(".") + " today."])
    texts = [made[0], made[0] + "\r\n", near, made[1], made[3], made[2]]
    path.write_text(jsonl(*({"text": t, "licence": "MIT"} for t in texts)))
    here(tmp_path / "out", path, benchmarks=Benchmarks.read(folder))
    assert [(row["file"][-1], row["gate"]) for row in rows(tmp_path / "out", "refusals")] == [
        ("2", "duplicate"), ("3", "near-duplicate"), ("5", "benchmark"),
    ]  # fmt: skip
    reasons = [row["reason"] for row in rows(tmp_path / "out", "refusals")]
    assert "in.jsonl:1" in reasons[0] and "in.jsonl:1" in reasons[1] and reasons[2].endswith("test.jsonl:1")
    assert reasons[2].startswith("8 runs")


def test_rows_that_are_too_long_do_not_take_the_others_along(tmp_path: Path):
    path = tmp_path / "in.jsonl"
    long = json.dumps({"text": "x " * 2**20, "licence": "MIT"})
    good = jsonl({"text": SIMPLEX, "licence": "MIT"})
    path.write_text(f"{long}\n{good}{jsonl({'text': 'y' * 200_000, 'licence': 'MIT'})}{long}")
    here(tmp_path / "out", path, rules=Rules(limits=Limits(row_mb=1)))
    assert [row["file"] for row in rows(tmp_path / "out", "documents")] == ["in.jsonl:2"]
    assert [(row["file"], row["gate"]) for row in rows(tmp_path / "out", "refusals")] == [
        ("in.jsonl:1", "size"), ("in.jsonl:3", "long line"), ("in.jsonl:4", "size"),
    ]  # fmt: skip


def test_processes_write_the_same_bytes(library: Path, tmp_path: Path):
    ingest(tmp_path / "two", [library], Rules(licence="MIT"), processes=2)
    here(tmp_path / "one", library, rules=Rules(licence="MIT"))
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_a_document_that_takes_too_long_is_refused(tmp_path: Path):
    """The time of a parser of HTML grows with the square of the depth."""
    (tmp_path / "deep.html").write_text("<div>" * 400_000 + SIMPLEX)
    rules = Rules(licence="MIT", limits=Limits(seconds=2))
    assert ingest(tmp_path / "out", [tmp_path / "deep.html"], rules, processes=1).refused == {"time": 1}
    assert rows(tmp_path / "out", "refusals")[0]["reason"] == "it took longer than 2 s"


@pytest.mark.parametrize("seed", range(10))
def test_a_folder_cut_anywhere_is_completed_to_the_same_bytes(seed: int, tmp_path: Path):
    path, rng = tmp_path / "in.jsonl", random.Random(seed)
    picked = [rng.randint(0, 9) for _ in range(16)]
    path.write_text(jsonl(*({"text": text(k) if k else "short", "licence": "MIT"} for k in picked)))
    here(tmp_path / "whole", path)
    whole = contents(tmp_path / "whole")
    part = tmp_path / "part"
    part.mkdir()
    for name, content in zip(FILES[:2], whole, strict=False):
        (part / name).write_bytes(content[: rng.randint(0, len(content))])
    (part / FILES[2]).write_bytes(whole[2])
    funnel = here(part, path)
    assert contents(part) == whole
    assert (funnel.documents, funnel.read) == (len(rows(part, "documents")), 16)
    assert here(part, path) == funnel and contents(part) == whole


def test_a_folder_of_other_settings_is_not_continued(tmp_path: Path):
    path, out = tmp_path / "in.txt", tmp_path / "out"
    path.write_text(SIMPLEX)
    here(out, path, rules=Rules(licence="MIT"))
    before = contents(out)
    with pytest.raises(DataError, match=r"licence is 'MIT' there, 'CC0-1\.0' here"):
        here(out, path, rules=Rules(licence="CC0-1.0"))
    with pytest.raises(DataError, match=r"near is 0\.8 there, 0\.9 here"):
        here(out, path, rules=Rules(licence="MIT"), near=0.9)
    path.write_text(ROUTING)
    with pytest.raises(DataError, match="files_sha256"):
        here(out, path, rules=Rules(licence="MIT"))
    assert contents(out) == before
    (out / "settings.json").unlink()
    with pytest.raises(DataError, match=r"no settings\.json"):
        here(out, path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda row: row | {"text": row["text"] + "x"}, "recorded hash"),
        (lambda row: row | {"number": 7}, None),
        (lambda row: row | {"number": "0"}, "out of order"),
        (lambda row: {"number": 0}, "it lacks"),
        (lambda row: {"number": 0, "file": "a", "gate": "unheard of", "reason": "b"}, "unheard of"),
        (lambda row: [row], "row 1"),
    ],
)
def test_a_changed_row_is_noticed(change, says: str | None, tmp_path: Path):
    path, out = tmp_path / "in.txt", tmp_path / "out"
    path.write_text(SIMPLEX)
    here(out, path, rules=Rules(licence="MIT"))
    before = contents(out)
    (out / FILES[0]).write_text(json.dumps(change(rows(out, "documents")[0])) + "\n")
    if says is None:  # a row after a gap is made again
        here(out, path, rules=Rules(licence="MIT"))
        assert contents(out) == before
    else:
        with pytest.raises(DataError, match=says):
            here(out, path, rules=Rules(licence="MIT"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rules": Rules(licence="unknown")}, "licence 'unknown'; accepted"),
        ({"rules": Rules(licence="M\u202eTI")}, "accepted: one line"),
        ({"rules": Rules(languages=("en", "tlh"))}, "languages tlh; accepted"),
        ({"rules": Rules(relevance=-1)}, "accepted"),
        ({"near": 0.0}, "accepted"),
        ({"processes": -1}, "accepted"),
    ],
)
def test_bad_arguments_are_named_before_any_work(options: dict, says: str, tmp_path: Path):
    (tmp_path / "in.txt").write_text(SIMPLEX)
    with pytest.raises(DataError, match=says):
        here(tmp_path / "out", tmp_path / "in.txt", **options)
    assert not (tmp_path / "out").exists()


def test_inputs_that_are_none(tmp_path: Path):
    (tmp_path / "in" / "in").mkdir(parents=True)
    for inputs, out, says in (
        ([], "out", "nowhere"),
        ([tmp_path / "missing"], "out", "does not exist"),
        ([tmp_path / "in", tmp_path / "in" / "in"], "out", "different names"),
        ([tmp_path / "in"], "in/out", "lies in"),
    ):
        with pytest.raises(DataError, match=says):
            here(tmp_path / out, *inputs)


def test_a_file_that_changes_meanwhile_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from trex.data.ingest import run

    found = run.inventory
    for name in ("in.txt", "in.jsonl"):
        path = tmp_path / name
        path.write_text(jsonl({"text": SIMPLEX, "licence": "MIT"}))

        def late(inputs, limits, path=path):
            files = found(inputs, limits)
            path.write_text(jsonl({"text": ROUTING, "licence": "MIT"}))
            return files

        monkeypatch.setattr(run, "inventory", late)
        with pytest.raises(DataError, match=f"{name} changed"):
            here(tmp_path / f"{name}.out", path, rules=Rules(licence="MIT"))


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "in.pdf").write_bytes(pdf([["text"]]))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(DataError, match=r"pypdf: pip install 'trex-reproduction\[ingest\]'"):
        here(tmp_path / "out", tmp_path / "in.pdf")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture):
    from trex.commands.data_ingest import ingest as command

    (tmp_path / "in.txt").write_text(SIMPLEX)
    assert command((tmp_path / "in.txt",), tmp_path / "out", licence="MIT", languages=("any",), processes=1) == 0
    assert "1 documents, " in capsys.readouterr().out
    assert command((tmp_path / "in.txt",), tmp_path / "none", processes=1) == 1
    assert "licence" in capsys.readouterr().out


@pytest.mark.slow
def test_killed_twenty_times_it_ends_in_the_same_files(tmp_path: Path):
    folder, rng = tmp_path / "in", random.Random(5)
    folder.mkdir()
    for k in range(120):
        (folder / f"{k:03}.pdf").write_bytes(pdf([text(k % 100, 40).split("\n")]))
    (folder / "rows.jsonl").write_text(jsonl(*({"text": text(k, 200), "licence": "MIT"} for k in range(200, 400))))
    subprocess.run([sys.executable, "-c", _script(folder, tmp_path / "straight")], check=True, timeout=600)
    seen = set()
    for _ in range(20):
        process = subprocess.Popen([sys.executable, "-c", _script(folder, tmp_path / "stopped")])
        path, before = tmp_path / "stopped" / "documents.jsonl", _size(tmp_path / "stopped" / "documents.jsonl")
        for _ in range(3000):  # until it writes, and a little longer
            if process.poll() is not None or _size(path) > before:
                break
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.wait()
        seen.add(_size(path))
    assert len(seen) > 5
    subprocess.run([sys.executable, "-c", _script(folder, tmp_path / "stopped")], check=True, timeout=600)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _script(folder: Path, out: Path) -> str:
    return (
        "from pathlib import Path\n"
        "from trex.data.ingest.prepare import Rules\n"
        "from trex.data.ingest.run import ingest\n"
        f"ingest(Path({str(out)!r}), [Path({str(folder)!r})], Rules(licence='MIT'), processes=2)\n"
    )
