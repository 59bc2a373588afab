"""The language of a text by py3langid (Lui and Baldwin, langid.py, 2012): a naive Bayes classifier, without network."""

import re
from functools import cache
from typing import Any

from trex.data.ingest.reading import optional

LOOKED_AT = 20_000  # characters
UNSPACED = {"zh", "ja", "th", "km", "lo", "my"}  # languages that set no space between words
FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
DISPLAYED = re.compile(r"\$\$.{0,5000}?\$\$|\\\[.{0,5000}?\\\]", re.DOTALL)
INLINE = re.compile(r"\$(?!\s)[^$\n]{1,300}(?<!\s)\$(?!\d)")  # as Pandoc has it: no prices


def prose(text: str) -> str:
    """A text without code blocks, tables and formulae: what the measures of language and quality are made for."""
    text = INLINE.sub("", DISPLAYED.sub("", FENCED.sub("", text)))
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("|"))


def detect(text: str) -> tuple[str, float]:
    """ISO 639-1 code of the likeliest language, and how sure it is, from 0 to 1."""
    code, sure = _identifier().classify(text[:LOOKED_AT])
    return code, round(float(sure), 3)


def known() -> frozenset[str]:
    """Codes of all languages that are told apart."""
    return frozenset(_identifier().labels)


@cache
def _identifier() -> Any:
    langid = optional("py3langid.langid", "telling languages apart")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
