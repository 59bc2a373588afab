"""Readers of text, Markdown and rows of JSONL, and the choice of a reader. Nothing is guessed: see `decode`."""

import codecs
import json
import re

from trex.data.ingest.html_text import read_html
from trex.data.ingest.pdf_text import read_pdf
from trex.data.ingest.reading import Limits, Reading, Refused, one_line
from trex.data.ingest.sources import LICENCES, licence, misstated

MARKS = (  # byte order marks; the longer ones first
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
# what a page may declare, by the codec that the WHATWG Encoding Standard has for the label
DECLARED = {
    "iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030",
    "shift_jis": "cp932", "euc-kr": "cp949",
} | {name: name for name in (
    "windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254", "iso-8859-2", "iso-8859-5",
    "iso-8859-7", "iso-8859-15", "koi8-r", "gb18030", "big5", "euc-jp", "iso-2022-jp",
)}  # fmt: skip
CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)
HEAD = 4096  # bytes in which a page declares its encoding
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
MOST_CONTROL = 0.001  # share of characters from which text is no text
MAGIC = (
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP"),
    (b"\x1f\x8b", "gzip"),
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
)
FRONT_MATTER = re.compile(r"---[ \t]*\n(.{0,20000}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
FRONT_TITLE = re.compile(r"^title:[ \t]*(['\"]?)(.+?)\1[ \t]*$", re.MULTILINE)
HEADING = re.compile(r"^# +(.+?)[ #]*$", re.MULTILINE)
ORIGIN = ("source", "url")  # keys of a row that say where it is from


def read(data: bytes, form: str, limits: Limits) -> Reading:
    """The text of one document. Raises Refused where it has none, or is not what its name says."""
    if form == "pdf":
        return read_pdf(data, limits)
    if form == "jsonl":
        return read_row(data)
    text = decode(data, _charset(data) if form == "html" else "")
    if not text.strip():
        raise Refused("empty", "it has no text")
    if form == "html":
        return read_html(text)
    return read_markdown(text) if form == "markdown" else Reading(text)


def decode(data: bytes, declared: str = "") -> str:
    """Text by its byte order mark, as UTF-8, or as the page declares. Raises Refused: "encoding" or "binary"."""
    for magic, name in MAGIC:
        if data.startswith(magic):
            raise Refused("binary", f"it is {name}, its name says text")
    encoding = next((codec for mark, codec in MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\x00" in data:
            raise Refused("binary", "it has bytes of value 0") from None
        try:
            text = data.decode(DECLARED[declared])
        except (KeyError, UnicodeDecodeError):
            also = f", nor {declared} as it declares" if declared not in ("", "utf-8") else ""
            byte = data[error.start : error.start + 1].hex()
            raise Refused("encoding", f"byte {error.start} (0x{byte}) is no {encoding.upper()}{also}") from None
    control = len(CONTROL.findall(text))
    if "\x00" in text or control > MOST_CONTROL * len(text):
        raise Refused("binary", f"{control} control characters in {len(text)}")
    return text


def read_markdown(text: str) -> Reading:
    """Markdown as it is, without front matter; the title is from there, or the first heading of the first level."""
    text, title = text.replace("\r\n", "\n"), None
    if front := FRONT_MATTER.match(text):
        title, text = FRONT_TITLE.search(front[1]), text[front.end() :]
    heading = HEADING.search(text)
    return Reading(text, one_line(title[2] if title else heading[1] if heading else ""))


def read_row(data: bytes) -> Reading:
    """A row of JSONL: `text`, and where it has them `title`, `licence` (or `license`), `source` (or `url`).

    Raises Refused where it is no JSON object with a text, or its licence is no text.
    """
    try:
        row = json.loads(decode(data))
    except (ValueError, RecursionError) as error:
        raise Refused("json", f"the row is no JSON: {one_line(str(error))}") from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        keys = one_line(", ".join(row)) if isinstance(row, dict) else type(row).__name__
        raise Refused("json", f"the row has no `text` of letters; it has: {keys or 'nothing'}")
    if not row["text"].strip():
        raise Refused("empty", "it has no text")
    if "\x00" in row["text"] or any("\ud800" <= c <= "\udfff" for c in row["text"]):
        raise Refused("binary", "its text has characters of value 0 or halves of characters")
    for key in LICENCES:
        if not isinstance(stated := row.get(key), str | None):
            raise Refused("licence", f"`{key}` is a {type(stated).__name__}; accepted: text, or null for none")
        if stated and (wrong := misstated(stated)):
            raise Refused("licence", f"`{key}` has {wrong}")
    title = one_line(row["title"]) if isinstance(row.get("title"), str) else ""
    source = next((row[key] for key in ORIGIN if isinstance(row.get(key), str)), "")
    named = next((found for key in LICENCES if (found := licence(row.get(key)))), "")
    return Reading(row["text"], title, named, one_line(source))


def _charset(data: bytes) -> str:
    found = CHARSET.search(data[:HEAD])
    return found[1].decode().lower() if found else ""
