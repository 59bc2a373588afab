"""A text on its way into a mixture."""

from dataclasses import dataclass

UNKNOWN = "unknown"  # licence that neither the text nor the recipe states


@dataclass(frozen=True)
class Text:
    """One document of a source."""

    text: str
    name: str  # where it comes from: an address, a module, a file and row
    licence: str  # an SPDX expression where the source has one, UNKNOWN where nothing is stated
    package: str = ""  # with its version, of embedded texts
