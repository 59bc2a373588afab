"""Readers: golden pages, and that whatever bytes come in, there is a reading or a refusal with a reason."""

import codecs
import io
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.ingest.made import SIMPLEX, pdf

from trex.data.ingest.readers import decode, read
from trex.data.ingest.reading import GATES, Limits, Reading, Refused

pypdf = pytest.importorskip("pypdf")
pytest.importorskip("selectolax")
LIMITS = Limits()

PAGE = """<!DOCTYPE html [<!ENTITY a "&b;&b;&b;&b;"><!ENTITY b "entity bomb">]>
<html><head><title>The  Simplex &amp; its Dual</title><style>p {color: red}</style>
<script>document.write("scripted")</script></head><body>
<nav><a href="/">Home</a> <a href="/b">Blog</a></nav>
<ul><li><a href=1>One of many</a></li><li><a href=2>Two of many</a></li><li><a href=3>Three</a></li>
<li><a href=4>Four</a></li></ul>
<main><h1>The Simplex</h1><p>A <b>basic</b> solution
is a vertex: <math alttext="x \\ge 0"><mi>x</mi></math>.<p>Unclosed paragraph &lt;here&gt; &a;
<script type="math/tex; mode=display">c^T x</script>
<ul><li>enter<li>leave</ul>
<table><tr><th>Basis<th>Cost<tr><td>x1<td>3</table>
<pre><code>for k in range(3):
    pivot(k)</code></pre><img src="http://localhost:1/x.png" onerror="alert(1)">
<p hidden>unseen</p><span aria-hidden="true">twice</span>
<p>A paragraph that is long enough for the main part of this page, which has to have two hundred characters or more.</p>
</main><footer>Imprint</footer></body></html>"""

GOLDEN = """# The Simplex

A basic solution is a vertex: $x \\ge 0$ .

Unclosed paragraph <here> &a; $$c^T x$$

- enter
- leave

| Basis | Cost |
| x1 | 3 |

```
for k in range(3):
    pivot(k)
```

A paragraph that is long enough for the main part of this page, which has to have two hundred characters or more."""


def refused(data: bytes, form: str, limits: Limits = LIMITS) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        read(data, form, limits)
    assert caught.value.gate in GATES and caught.value.reason
    return caught.value.gate, caught.value.reason


def test_a_page_as_markdown():
    found = read(PAGE.encode(), "html", LIMITS)
    assert found.title == "The Simplex & its Dual"
    lines = [line for line in found.text.split("\n") if line.strip()]
    assert lines == [line for line in GOLDEN.split("\n") if line.strip()]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (codecs.BOM_UTF8 + "x² ≤ 1".encode(), "x² ≤ 1"),
        (codecs.BOM_UTF16_LE + "x² ≤ 1".encode("utf-16-le"), "x² ≤ 1"),
        (codecs.BOM_UTF16_BE + "x² ≤ 1".encode("utf-16-be"), "x² ≤ 1"),
        (codecs.BOM_UTF32_LE + "x² ≤ 1".encode("utf-32-le"), "x² ≤ 1"),
        ("线性规划".encode(), "线性规划"),
    ],
)
def test_encodings_by_their_mark(data: bytes, text: str):
    assert decode(data) == text


@pytest.mark.parametrize(("charset", "codec"), [("gb2312", "gbk"), ("ISO-8859-1", "cp1252"), ("koi8-r", "koi8-r")])
def test_a_page_declares_its_encoding(charset: str, codec: str):
    word = {"gbk": "线性规划", "cp1252": "“Erlöse”", "koi8-r": "линейное программирование"}[codec]
    page = f'<html><head><meta charset="{charset}"></head><body><p>{word}</p></body></html>'.encode(codec)
    assert read(page, "html", LIMITS).text.strip() == word
    assert refused(word.encode(codec), "text")[0] == "encoding"


@pytest.mark.parametrize(
    ("data", "form", "gate", "reason"),
    [
        (b"Erl\xf6se", "text", "encoding", "byte 3 (0xf6)"),
        (b'<meta charset="rot13"><p>Erl\xf6se', "html", "encoding", "nor rot13"),
        (b'<meta charset="pickle"><p>Erl\xf6se', "html", "encoding", "nor pickle"),
        (bytes(range(256)), "text", "binary", "value 0"),
        (b"a\x00b", "markdown", "binary", "control"),
        (b"%PDF-1.4 text", "text", "binary", "PDF"),
        (b"PK\x03\x04....", "html", "binary", "ZIP"),
        (b" \n\t ", "text", "empty", "no text"),
        (b"<html><script>let text = 1</script><nav>menu</nav></html>", "html", "empty", "menus"),
        (b"not a pdf", "pdf", "binary", "begin"),
        (pdf([[], [], []]), "pdf", "empty", "3 pages without text"),
        (pdf([["text"]] * 4), "pdf", "pages", "4 pages; accepted: up to 3"),
        (b"%PDF-1.4\njunk" * 50, "pdf", "pdf", "Error"),
        (b"{", "jsonl", "json", "no JSON"),
        (b"[1]", "jsonl", "json", "list"),
        (b'{"title": "x", "body": "y"}', "jsonl", "json", "title, body"),
        (b'{"text": 1}', "jsonl", "json", "`text`"),
        (b'{"text": "a", "licence": 5}', "jsonl", "licence", "`licence` is a int"),
        (b'{"text": "a", "licence": ["MIT"]}', "jsonl", "licence", "`licence` is a list"),
        (b'{"text": "a", "licence": "MIT", "license": false}', "jsonl", "licence", "`license` is a bool"),
        (b'{"text": "a", "licence": "M\\u202eTI"}', "jsonl", "licence", "U+202E"),
        (b'{"text": "a", "licence": "' + b"x" * 201 + b'"}', "jsonl", "licence", "201 characters"),
        (b'{"text": "\\ud800"}', "jsonl", "binary", "halves"),
        (b'{"text": " "}', "jsonl", "empty", "no text"),
        (b"[" * 200_000, "jsonl", "json", "no JSON"),
        (b'{"text": ' + b"9" * 5000 + b"}", "jsonl", "json", "no JSON"),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes, form: str, gate: str, reason: str):
    found = refused(data, form, Limits(pages=3))
    assert found[0] == gate and reason in found[1]


def test_rows_name_licence_and_source():
    row = {"text": "a", "title": "T\n2", "license": "MIT", "url": "https://example.org/a"}
    assert read(json.dumps(row).encode(), "jsonl", LIMITS) == Reading("a", "T 2", "MIT", "https://example.org/a")
    row = {"text": "a", "title": 3, "licence": "unknown", "license": None, "source": "\ud800book", "url": "x"}
    assert read(json.dumps(row).encode(), "jsonl", LIMITS) == Reading("a", "", "", "book")


def test_markdown_keeps_its_text_and_loses_front_matter():
    found = read(b"---\r\ntitle: 'Lot sizing'\r\n---\r\nText.\n", "markdown", LIMITS)
    assert found == Reading("Text.\n", "Lot sizing")
    assert read(b"Text\n\n# Cutting stock #\n", "markdown", LIMITS) == Reading(
        "Text\n\n# Cutting stock #\n", "Cutting stock"
    )
    assert read(b"---\nno end of it", "markdown", LIMITS).text == "---\nno end of it"


def test_pages_of_a_pdf_are_joined_to_paragraphs():
    pages = []
    for number, word in enumerate(["alpha", "beta", "gamma", "delta", "epsilon"], start=1):
        pages.append(
            [
                f"Journal of Plans {number}, 2026",
                f"The {word} plan is the best that anybody knows (so far) for this kind of opti-",
                "mization problem, as the dual bound has the same value and the gap is zero.",
                f"The {word} plan costs {number}00.",
                f"{number}",
            ]
        )
    found = read(pdf(pages, "Plans (a survey)"), "pdf", LIMITS)
    assert found.title == "Plans (a survey)"
    assert found.text.split("\n\n") == [
        f"The {word} plan is the best that anybody knows (so far) for this kind of optimization problem, as the dual "
        f"bound has the same value and the gap is zero. The {word} plan costs {number}00."
        for number, word in enumerate(["alpha", "beta", "gamma", "delta", "epsilon"], start=1)
    ]


def test_bombs_and_loops_in_a_pdf_are_refused():
    packed = zlib.compress(b"BT (a) Tj ET " * 10_000_000)  # 130 MB
    stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
    sound = pdf([["text"]])
    start, end = sound.index(b"<< /Length"), sound.index(b"endstream") + len(b"endstream")
    assert refused(sound[:start] + stream + sound[end:], "pdf")[0] == "pdf"
    assert refused(sound.replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"), "pdf")[0] in ("pdf", "empty")


def test_encrypted_pdfs_are_refused():
    writer = pypdf.PdfWriter(io.BytesIO(pdf([["secret"]])))
    writer.encrypt("", "owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    assert refused(out.getvalue(), "pdf") == ("encrypted", "it is encrypted")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["text", "markdown", "html", "pdf", "jsonl"]))
def test_any_bytes_are_read_or_refused(data: bytes, form: str):
    _read_or_refused(data, form)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.sampled_from(["text", "markdown", "html", "jsonl"]))
def test_any_text_is_read_or_refused(text: str, form: str):
    data = json.dumps({"text": text, "title": text, "licence": text}) if form == "jsonl" else text
    _read_or_refused(data.encode("utf-8", "surrogatepass"), form)


SOUND = pdf([SIMPLEX.split("\n")] * 2, "The simplex method")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(9, len(SOUND) - 1), st.binary(max_size=6)), min_size=1, max_size=8))
def test_damaged_pdfs_are_read_or_refused(changes: list[tuple[int, bytes]]):
    data = SOUND
    for place, new in changes:
        data = data[:place] + new + data[place + len(new) // 2 :]
    _read_or_refused(data, "pdf")


def _read_or_refused(data: bytes, form: str) -> None:
    try:
        found = read(data, form, LIMITS)
    except Refused as error:
        assert error.gate in GATES and error.reason
    else:
        assert found.text.strip() and "\n" not in found.title + found.licence + found.source
        (found.title + found.licence + found.source).encode()
