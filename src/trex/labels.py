"""The four labels, one of which every number carries."""

LABELS = ("published", "derived", "modelled", "measured")


class ResultError(ValueError):
    """A number without an accepted label, or a record that cannot be written or read."""
