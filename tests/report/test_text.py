"""Tables as text."""

from trex.report.text import align


def test_tables_are_aligned() -> None:
    text = align([("part", "Flash", ""), ("a", "1,000", "*"), ("longer", "2", "")])
    assert text.split("\n") == ["part    Flash", "a       1,000  *", "longer      2"]
