"""The words of a rule that carry its logic, read so that equal bounds in other words are equal.

`cannot get more than`, `no more than` and `at most` are one bound. The reading is narrow on purpose: what it does not
know as equal counts as different.
"""

import re
from collections import Counter
from collections.abc import Sequence

Terms = Sequence[tuple[str, re.Pattern[str]]]  # what a term is called, and all its forms

_NO = r"\b(no|not|none|never|nobody|neither|nor)\b"
_GAP = r"((?: [\w@'-]+){0,8}?) "  # a few words of one clause, which stay to be read
_THAN = r"((?: [\w@'-]+){0,6}?) than\b"
# one after the other; what begins with @ is a class of COUNTED
_READ: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        (r"\b(?:need not|needn't|do(?:es)? not (?:have|need) to)\b", "@free"),
        (r"@free be (?:in )?(?:whole|integer)(?: numbers)?\b|\bnot necessarily whole\b", "@fraction"),
        (r"\bcannot\b|\bcan't\b|\b(?:can|may|must|could|shall|should|might|is|are|do|does|has|have) (?:not|never)\b",
         "not"),
        (r"\b(?:\w+n't)\b|\bimpossible\b|\bnot (?:possible|allowed|permitted)\b|\bforbidden\b|\bruled out\b", "not"),
        (r"\bas (?:small|low|short|little|few|cheap|early|soon)\b(?:\W+\w+){0,3}?\W+as possible\b", "@minimise"),
        (r"\bas (?:large|high|great|much|many|big|late|long)\b(?:\W+\w+){0,3}?\W+as possible\b", "@maximise"),
        (r"\bat (?:the )?least\b", "@atleast"),
        (r"\bat (?:the )?most\b|\bup to\b|\blimited(?: to| by)?\b", "@atmost"),
        (r"\blimits?\b(?= (?:what|how|the|each|every)\b)", "@atmost"),
        (r"\bor (?:more|longer|later|higher|above)\b", "@atleast"),
        (r"\bor (?:less|fewer|shorter|earlier|lower|below)\b", "@atmost"),
        (r"\bnon-?negative\b", "@nonnegative"),
        (r"\bno(?:t|r|ne)?" + _GAP + r"negative\b", r"\1 @nonnegative"),
        (r"\bnegative (?:\w+ ){0,2}(?:are )?not\b", "@nonnegative"),
        (_NO + _GAP + r"(?:less|fewer|lower|smaller|shorter)\b" + _THAN, r"\1~\2 @atleast \3"),
        (_NO + _GAP + r"(?:below|fall short)\b", r"\1~\2 @atleast"),
        (_NO + _GAP + r"(?:more|greater|larger|longer|higher)\b" + _THAN, r"\1~\2 @atmost \3"),
        (_NO + _GAP + r"exceed(?:s|ed|ing)?\b", r"\1~\2 @atmost"),
        (r"\b(?:no|none|nobody)~(?= \w)", "every"),  # no depot gets more than: every depot gets at most
        (r"\b\w+~", ""),
        (r"\b(?:yes[- ]or[- ]no|binary|zero-one)\b", "@yesno"),
    )
)  # fmt: skip
COUNTED = {  # as often in both
    "negation": r"(?:no|not|none|never|nobody|nothing|neither|nor|without|unless|except)",
    "at least": "@atleast",
    "at most": "@atmost",
    "exactly": r"(?:exactly|precisely)",
    "number word": r"(?:zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty"
    r"|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|dozen|half|quarters?|thirds?|twice|double|triple"
    r"|percent)",
    "must": r"(?:must|(?:has|have|is|are|needs?|required|obliged) to|shall)",
    "only": r"(?:only|solely|alone|exclusively)",
    "whole": r"(?:whole|integers?|integral)",
    "fraction": r"(?:@fraction|fractions?|fractional|continuous)",
    "non-negative": "@nonnegative",
    "yes or no": "@yesno",
    "need not": "@free",
    "least": r"(?:@minimise|minimi[sz]\w*|least|smallest|lowest|cheapest|shortest|fewest|earliest|minim(?:um|al|a))",
    "largest": r"(?:@maximise|maximi[sz]\w*|most|largest|greatest|highest|biggest|longest|latest|maxim(?:um|al|a))",
}
KEPT = {  # in the new one where the old one has it
    "total": r"(?:together|total|all|sum|sums|overall|altogether|combined|joint(?:ly)?|adds? up|added up|jointly)",
    "same": r"(?:same|equal|equals|identical|alike)",
    "if": r"(?:if|when|where|whether|unless|as soon as|provided|whoever|whatever|while)",
    "one": r"(?:one|a single|single|once|@yesno)",
    "or": r"(?:or|either|whether|@yesno)",
}
PERMITTED = r"(?:may|can|could|might|allowed|possible|permitted)"
OPPOSITE = tuple(  # a sentence does not change sides
    (rf"(?:{one})", rf"(?:{other})")
    for one, other in (
        (r"before|earlier|preced\w+|ahead|prior", r"after|afterwards|later|follow\w*|behind"),
        (r"starts?|started|starting|begins?|began|begun|beginning", r"ends?|ended|ending|finish\w*|complet\w+"),
        (r"more|above|exceed\w*|greater|larger|higher|longer", r"less|fewer|below|smaller|lower|shorter|under"),
        (r"buy|buys|buying|bought|purchas\w+", r"sell|sells|selling|sold|sales?"),
        (r"costs?|charg\w+|pays?|paid|spen[dt]\w*", r"earn\w*|revenues?|profits?|gains?|brings?|sell|sells|sold"),
        (r"open|opened|opening", r"clos\w+|shut"),
        (r"early|earliness", r"late|lateness"),
        (r"large|big|high|great|many|much|long", r"small|little|low|few|short"),
        (r"first", r"last"),
        (r"with", r"without"),
        (r"increas\w+|rais\w+|adds?|added", r"decreas\w+|reduc\w+|lower\w*|removed?"),
        (r"each|every|all|any", r"some|several"),
        (r"arriv\w+|receiv\w+|into", r"leav\w+|sends?|sent|out"),
        (r"and", r"or"),
    )
)


def changed(old: str, new: str, terms: Terms) -> list[str]:
    """Which classes of logical words a sentence has other than the one that it was made from."""
    before, after = _read(old), _read(new)
    found = [name for name, word in COUNTED.items() if _count(word, before) != _count(word, after)]
    found += [name for name, word in KEPT.items() if _count(word, before) and not _count(word, after)]
    said = (COUNTED["negation"], COUNTED["at least"], COUNTED["at most"])  # with these, `may` says nothing more
    if not any(_count(word, text) for word in said for text in (before, after)) and bool(
        _count(PERMITTED, before)
    ) != bool(_count(PERMITTED, after)):
        found.append("may")
    for pair in OPPOSITE:
        was, now = ([bool(_count(word, text)) for word in pair] for text in (before, after))
        if any(was) and any(now) and was != now and not all(now):
            found.append("opposites")
    if _quantified(before, terms) != _quantified(after, terms):
        found.append("each or exactly")
    return found


def _read(sentence: str) -> str:
    text = " ".join(sentence.lower().replace("\u2019", "'").split())
    for pattern, to in _READ:
        text = pattern.sub(to, text)
    return text


def _count(word: str, text: str) -> int:
    return len(re.findall(rf"(?<![\w@-]){word}(?![\w-])", text))


def _quantified(text: str, terms: Terms) -> Counter[tuple[str, str]]:
    """What `each`, `all` and `exactly one` stand before: the first term among the next two words."""
    found: Counter[tuple[str, str]] = Counter()
    for match in re.finditer(r"\b(each|every|all|any|exactly)\b((?:\W+of\W+the)?(?:\W+[\w'-]+){0,2})", text):
        places = [(m.start(), name) for name, pattern in terms if (m := pattern.search(match[2]))]
        if places:
            found["exactly" if match[1] == "exactly" else "each", min(places)[1]] += 1
    return found
