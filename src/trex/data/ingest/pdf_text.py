"""The text of a PDF by pypdf: pages in order, without the lines that all pages share, hyphens and line breaks undone.

pypdf opens no connection and runs nothing. It is called in a process whose time and memory are limited.
"""

import io
import logging
import re
from collections import Counter

from trex.data.ingest.reading import Limits, Reading, Refused, one_line, optional

EDGE = 2  # lines at the top and at the bottom of a page that may be a running head
FEWEST_PAGES = 4  # from which heads and feet are looked for
NUMBER = re.compile(r"\d+")
PAGE_NUMBER = re.compile(r"[-–— ]*(?:page )?\d{1,4}(?: (?:of|/) \d{1,4})?[-–— ]*", re.IGNORECASE)
HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zà-ÿ])")
SHORT = 0.75  # share of the usual length of a line below which it ends a paragraph


def read_pdf(data: bytes, limits: Limits) -> Reading:
    """Text and title of a PDF. Raises Refused: "binary", "encrypted", "pages", "pdf" where it is damaged, "empty"."""
    pypdf = optional("pypdf", "reading PDF files")
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it thinks of damaged files
    if b"%PDF-" not in data[:1024]:
        raise Refused("binary", "it does not begin as a PDF does")
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted:
            raise Refused("encrypted", "it is encrypted")
        count = len(reader.pages)
        if count > limits.pages:
            raise Refused("pages", f"{count} pages; accepted: up to {limits.pages}")
        pages = [page.extract_text() or "" for page in reader.pages]
        title = str((reader.metadata or {}).get("/Title", ""))
    except (Refused, MemoryError):
        raise
    except Exception as error:  # of a damaged file any
        raise Refused("pdf", f"{type(error).__name__}: {one_line(str(error))}") from None
    if not any(page.strip() for page in pages):
        raise Refused("empty", f"{count} pages without text, as of scans")
    text = "\n\n".join(paragraphs(page) for page in without_heads(pages))
    return Reading(HYPHEN.sub("", text), one_line(title))


def without_heads(pages: list[str]) -> list[list[str]]:
    """The lines of the pages without page numbers and what stands, numbers aside, at the edge of over half of them."""
    lines = [[line.strip() for line in page.split("\n")] for page in pages]
    trimmed = [_trim(page) for page in lines]
    seen = Counter(key for page in trimmed for key in {_key(line) for line in _edges(page)})
    heads = {key for key, count in seen.items() if len(pages) >= FEWEST_PAGES and count > len(pages) / 2}
    out = []
    for page in trimmed:
        kept = list(page)
        for end in (0, -1):
            for _ in range(EDGE):
                if kept and (_key(kept[end]) in heads or PAGE_NUMBER.fullmatch(kept[end])):
                    kept.pop(end)
        out.append(kept)
    return out


def paragraphs(lines: list[str]) -> str:
    """Lines of a page joined to paragraphs: one ends at an empty line, and at a short line with a full stop."""
    lengths = sorted(len(line) for line in lines if line)
    usual = lengths[int(len(lengths) * 0.9)] if lengths else 0
    out = ""
    for line in lines:
        ends = line.endswith((".", "?", "!", ":", "。")) and len(line) < SHORT * usual
        if not line:
            out = out.rstrip() + "\n\n" if out else out
        elif line.endswith("-") and not line.endswith("--"):
            out += line + "\n"  # HYPHEN joins it, or leaves the break
        elif len(line) < SHORT * usual / 2 or ends:
            out += line + "\n"  # a heading, a formula, the last line of a paragraph
        else:
            out += line + " "
    return out.strip()


def _trim(lines: list[str]) -> list[str]:
    filled = [number for number, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _edges(lines: list[str]) -> list[str]:
    return [line for line in (*lines[:EDGE], *lines[-EDGE:]) if line]


def _key(line: str) -> str:
    return NUMBER.sub("#", line)
