"""The reader of the release's prompt texts, on files of our own: every way to write a string, and what it refuses."""

from pathlib import Path

import pytest

from trex.data.problem import DataError
from trex.data.prompt_texts import LARGEST, PromptTexts, parts

MAX = 'REASONING_EFFORT_MAX = "Slowly."\n'
TOOLS = 'TOOLS_TEMPLATE = "Call {tool_schemas}."\n'
FORM = 'response_format_template = "As {schema}."\n'


def read(folder: Path, source: str | bytes) -> PromptTexts:
    path = folder / "encoding_dsv4.py"
    path.write_bytes(source.encode() if isinstance(source, str) else source)
    return PromptTexts.read(path)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('= "Slowly."', "Slowly."),
        (": str = 'Slowly.'", "Slowly."),
        ('= OTHER = "Slowly."', "Slowly."),
        ('= (\n    "Slow"  # a remark\n    "ly.\\n"\n)', "Slowly.\n"),
        ('= "Slow" \\\n    "ly."', "Slowly."),
        ('= """Slowly,\n\n  "so".\\\n"""', 'Slowly,\n\n  "so".'),
        (': "str" = (r"Slowly\\n")', "Slowly\\n"),
        ('= "｜\\u00fc｜"', "｜ü｜"),
        ('= "{any} {{field}}"', "{any} {{field}}"),
        ('= ""', ""),
    ],
)
def test_every_way_to_write_a_string_is_read(tmp_path: Path, written: str, text: str) -> None:
    found = read(tmp_path, f"import nothing_of_that_name\n{FORM}REASONING_EFFORT_MAX{written}\n{TOOLS}1 / 0\n")
    assert found == PromptTexts(text, "Call {tool_schemas}.", "As {schema}.")


def test_line_ends_and_a_byte_order_mark_are_python_s(tmp_path: Path) -> None:
    source = f'{MAX}{FORM}TOOLS_TEMPLATE = """Call\n{{tool_schemas}}"""\n'.replace("\n", "\r\n").encode()
    assert read(tmp_path, b"\xef\xbb\xbf" + source).tools == "Call\n{tool_schemas}"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "no REASONING_EFFORT_MAX"),
        (MAX + TOOLS, "no response_format_template"),
        (f"{MAX}{FORM}x = TOOLS_TEMPLATE\n", "no TOOLS_TEMPLATE"),
        (f"{MAX}{FORM}if x:\n    {TOOLS}", "TOOLS_TEMPLATE is computed"),
        (f"{MAX}{FORM}def f():\n    {TOOLS}", "TOOLS_TEMPLATE is computed"),
        (f"{MAX}{FORM}{TOOLS}{TOOLS}", "assigned twice"),
        (f"{MAX}{FORM}{TOOLS}TOOLS_TEMPLATE += 'x'\n", "assigned twice"),
        (f"{MAX}{FORM}TOOLS_TEMPLATE: str\n", "TOOLS_TEMPLATE is computed"),
        (f"{MAX}{FORM}TOOLS_TEMPLATE = 'a' + '{{tool_schemas}}'\n", "TOOLS_TEMPLATE is computed"),
        (f"{MAX}{FORM}TOOLS_TEMPLATE = f'{{tool_schemas}}'\n", "TOOLS_TEMPLATE is computed"),
        (f"{MAX}{FORM}TOOLS_TEMPLATE = b'x'\n", "TOOLS_TEMPLATE is computed"),
        (f"{MAX}{FORM}TOOLS_TEMPLATE, x = 'a', 'b'\n", "TOOLS_TEMPLATE is computed"),
        (f"{MAX}{FORM}TOOLS_TEMPLATE = open('x').read()\n", "TOOLS_TEMPLATE is computed"),
        ("<html>not found</html>", "is not Python"),
        (b"\xff\xfe\x00", "is not Python"),
        (b"x = '\x00'", "is not Python"),
        (b"# coding: nothing\n", "is not Python"),
        ("(" * 100_000, "is not Python"),
        ("-" * 100_000 + "1", "is not Python"),
        ("#" * (LARGEST + 1), "more than 1000000 bytes"),
    ],
    ids=lambda item: str(item)[:40],
)
def test_other_files_are_refused(tmp_path: Path, source: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"encoding_dsv4.py.*{message}"):
        read(tmp_path, source)


def test_a_file_of_the_largest_size_is_read_and_no_file_is_refused(tmp_path: Path) -> None:
    source = MAX + FORM + TOOLS
    assert read(tmp_path, source + "#" * (LARGEST - len(source))).max_effort == "Slowly."
    with pytest.raises(DataError, match="missing"):
        PromptTexts.read(tmp_path / "missing")


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("Call.", "TOOLS_TEMPLATE has no field 'tool_schemas'"),
        ("{tool_schemas} {}", "the field ''; accepted: tool_schemas, dsml_token"),
        ("{tool_schemas} {schema}", "the field 'schema'"),
        ("{tool_schemas.__class__}", "the field 'tool_schemas.__class__'"),
        ("{tool_schemas[0]}", r"the field 'tool_schemas\[0\]'"),
        ("{tool_schemas!r}", "'tool_schemas' with 'r'"),
        ("{tool_schemas:>9}", "'tool_schemas' with '>9'"),
        ("{tool_schemas:{dsml_token}}", "'tool_schemas' with"),
        ("{tool_schemas} }", "TOOLS_TEMPLATE: no template"),
        ("{tool_schemas", "TOOLS_TEMPLATE: no template"),
    ],
)
def test_other_fields_are_refused(tools: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        PromptTexts("", tools, "{schema}")


def test_the_response_format_has_one_field() -> None:
    with pytest.raises(DataError, match="response_format_template has the field 'dsml_token'; accepted: schema"):
        PromptTexts("", "{tool_schemas}", "{schema}{dsml_token}")


@pytest.mark.parametrize("template", ["", "a", "{x}", "a{x}b{y}", "{{{x}}}", "{{x}} {y}{{", "{x}{x}"])
def test_parts_are_what_format_makes_of_a_template(template: str) -> None:
    values = {"x": "{y}", "y": "{{"}
    assert "".join(text + values.get(field or "", "") for text, field in parts(template)) == template.format(**values)
