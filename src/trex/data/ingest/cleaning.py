"""Cleaning: one form of letters and spaces, no invisible characters, no lines that every page of a site has.

Superscripts and other signs keep their form (NFC, not NFKC): x² is not x2.
"""

import re
import unicodedata

from trex.data.ingest.reading import Refused

BREAKS = str.maketrans({"\x85": "\n", "\u2028": "\n", "\u2029": "\n\n", "\f": "\n", "\v": "\n"})
LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
DATA_URI = re.compile(r"!\[([^\]\n]{0,500})\]\(\s*<?data:[^)\n]*\)")
BLANK = re.compile(r"\n{3,}")
FENCE = re.compile(r"(?:```|~~~)")
LONGEST = 25  # words of a line that may be boilerplate
# after C4 (Raffel et al., 2020, section 2.2), which drops lines on JavaScript, cookies and policies
BOILERPLATE = re.compile(
    r"(?:enable|requires?|turn on|activate) java ?script|java ?script (?:is|seems to be) (?:disabled|required|not)"
    r"|(?:use|uses|accept|manage|about) (?:of )?(?:all )?cookies|cookie (?:policy|settings|preferences|consent)"
    r"|(?:privacy|cookie) (?:policy|notice)\W*$|^\W*terms (?:of|and) (?:use|service|conditions)\W*$"
    r"|(?:sign up|subscribe|sign in|log in)\b.{0,40}\b(?:newsletter|account|comment|updates)"
    r"|^\W*(?:share|tweet|pin|like|print|e-?mail)(?: (?:this|on|via)\b.{0,40})?\W*$"
    r"|(?:follow|find|like) us on\b|^\W*(?:skip|jump) to (?:main )?(?:content|navigation|search)"
    r"|^\W*back to top\W*$|^\W*(?:read|show|load) more\W*$|^\W*advertisement\W*$|lorem ipsum dolor",
    re.IGNORECASE,
)
UNREADABLE = {"Co", "Cn"}  # private and unassigned characters
MOST_UNREADABLE = 0.005  # share from which the letters of a document cannot be trusted


def clean(text: str) -> tuple[str, int]:
    """The cleaned text, and how many lines of boilerplate were left out. Cleaning twice is cleaning once."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(BREAKS).translate(LIGATURES)
    text = SPACES.sub(" ", INVISIBLE.sub("", text))
    text = DATA_URI.sub(r"\1", unicodedata.normalize("NFC", text))
    kept, cut, inside = [], 0, False
    for line in text.split("\n"):
        line = line.rstrip()
        if FENCE.match(line.lstrip()):
            inside = not inside
        elif not inside and boilerplate(line):
            cut += 1
            continue
        kept.append(line)
    return BLANK.sub("\n\n", "\n".join(kept)).strip("\n"), cut


def boilerplate(line: str) -> bool:
    """Whether a line is one of those that belong to a site and not to its text."""
    return len(line) < 300 and len(line.split()) <= LONGEST and BOILERPLATE.search(line) is not None


def readable(text: str, longest: int) -> None:
    """Raise Refused for what cleaning cannot mend: nothing left, signs without meaning, a line beyond `longest`."""
    if not text.strip():
        raise Refused("empty", "nothing is left of it")
    bad = sum(c == "\ufffd" or (c > "\u0377" and unicodedata.category(c) in UNREADABLE) for c in text)
    if bad > MOST_UNREADABLE * len(text):
        raise Refused("encoding", f"{bad} characters of {len(text)} have no meaning")
    line = max(map(len, text.split("\n")))
    if line > longest:
        raise Refused("long line", f"{line:,} characters on a line; accepted: up to {longest:,}")
