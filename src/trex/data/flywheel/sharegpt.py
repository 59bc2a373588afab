"""Chats as OpenAI and as ShareGPT have them, in files of lines and in parquet, and how MindSpeed-LLM reads them.

Sources: MindSpeed-LLM's docs/en/pytorch/tools/data_process_sft_sharegpt_style.md and
mindspeed_llm/tasks/preprocess/utils.py; the prompt type is that of training/sft/README.md of the T-Rex release.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from trex.data.problem import DataError

Messages = list[dict[str, str]]  # role and content
Row = tuple[Messages, Mapping[str, Any]]  # a dialogue, and where it comes from
OPENAI, SHAREGPT, DATASETS = "openai", "sharegpt", "datasets"
FORMS = (OPENAI, SHAREGPT, DATASETS)
ORIGIN = {  # what is said of a row, of one type in every row, so that readers of tables take them
    "id": pa.string(),
    "lineage": pa.string(),
    "task": pa.string(),
    "style": pa.string(),
    "mode": pa.string(),
    "structure": pa.string(),
    "difficulty": pa.int32(),
    "files": pa.string(),  # JSON: name -> content; "" for none
}
GROUP = 1000  # rows of a group in parquet
TAGS = {"human": "user", "gpt": "assistant", "system": "system"}
NAMES = {"user": "human", "assistant": "gpt"}
# `system` has to be mapped: without it MindSpeed-LLM leaves the column out of the prompt
SHAREGPT_KEYS = {
    "messages": "conversations",
    "system": "system",
    "tags": {
        "role_tag": "from",
        "content_tag": "value",
        "user_tag": "human",
        "assistant_tag": "gpt",
        "system_tag": "system",
        "observation_tag": "observation",
        "function_tag": "function_call",
    },
}
OPENAI_KEYS = {
    "messages": "messages",
    "tags": {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
        "system_tag": "system",
    },
}


def checked(messages: Any) -> Messages:
    """The same messages, of which a trainer can use every turn: a system's first if any, then user and assistant.

    Raises DataError where user and assistant do not take turns up to an assistant's answer, and for what is no text.
    MindSpeed-LLM leaves such rows out with a warning.
    """
    if not isinstance(messages, list) or not messages:
        raise DataError(f"messages {messages!r:.80}; accepted: a list of messages")
    found: Messages = []
    for message in messages:
        if not isinstance(message, Mapping) or not set(message) <= {"role", "content", "name"}:
            raise DataError(f"message {message!r:.80}; accepted: an object with role and content")
        role, content = message.get("role"), message.get("content")
        if not isinstance(content, str) or not content.strip():
            raise DataError(f"message of role {role!r:.40} with content {content!r:.80}; accepted: a text")
        try:
            content.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"message of role {role!r:.40} is not Unicode: {error}") from None
        found.append({"role": str(role), "content": content})
    turns = [message["role"] for message in found]
    if turns[0] == "system":
        turns = turns[1:]
    expected = ["user", "assistant"] * max(1, len(turns) // 2)
    if turns != expected:
        roles = ", ".join(message["role"] for message in found)
        raise DataError(f"roles {roles:.200}; accepted: system or not, then user and assistant in turn")
    return found


def from_openai(messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """`conversations` and `system` ("" where there is none) of messages."""
    first = messages[0]["content"] if messages[0]["role"] == "system" else ""
    turns = messages[1:] if first else messages
    said = [{"from": NAMES[message["role"]], "value": message["content"]} for message in turns]
    return {"conversations": said, "system": first}


def to_openai(row: Mapping[str, Any]) -> Messages:
    """Messages of a row of ShareGPT. Raises DataError for one that has another form, or tools."""
    turns, system = row.get("conversations"), row.get("system") or ""
    if not isinstance(turns, list) or not isinstance(system, str):
        raise DataError(f"conversations {turns!r:.80}; accepted: a list, and a text as `system`")
    if row.get("tools"):
        raise DataError(f"tools {row['tools']!r:.80}; accepted: dialogues without tools")
    found: Messages = [{"role": "system", "content": system}] if system.strip() else []
    for turn in turns:
        if not isinstance(turn, Mapping) or not set(turn) <= {"from", "value"}:
            raise DataError(f"turn {turn!r:.80}; accepted: an object with from and value")
        name = turn.get("from")
        if not isinstance(name, str) or name not in TAGS:
            raise DataError(f"turn from {name!r:.40}; accepted: {', '.join(TAGS)}")
        found.append({"role": TAGS[name], "content": turn.get("value")})  # type: ignore[dict-item]  # checked below
    return checked(found)


def command(form: str, file: str) -> str:
    """The command line that makes Megatron's files of one of ours with MindSpeed-LLM. form: one of FORMS."""
    keys = json.dumps(SHAREGPT_KEYS if form == SHAREGPT else OPENAI_KEYS, separators=(",", ":"))
    lines = [
        "python ./preprocess_data.py",
        f"--input {file}",
        "--tokenizer-name-or-path TOKENIZER",
        "--tokenizer-type PretrainedFromHF",
        "--output-prefix FOLDER/dialogues",
        "--workers 8",
        "--log-interval 1000",
        "--handler-name SharegptStyleInstructionHandler",
        "--prompt-type deepseek4",
        f"--map-keys '{keys}'",
    ]
    return " \\\n  ".join(lines)


def write(form: str, path: Path, rows: Iterable[Row]) -> None:
    """Write a file. form: one of FORMS; DATASETS is parquet with the columns `messages` and ORIGIN's."""
    if form == DATASETS:
        message = pa.struct([("role", pa.string()), ("content", pa.string())])
        schema = pa.schema([("messages", pa.list_(message)), *ORIGIN.items()])
        taken = iter(rows)
        with parquet.ParquetWriter(path, schema, compression="zstd") as table:
            while group := list(islice(taken, GROUP)):
                held = [{"messages": messages, **origin} for messages, origin in group]
                table.write_table(pa.Table.from_pylist(held, schema=schema))
        return
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for messages, origin in rows:
            said = from_openai(messages) if form == SHAREGPT else {"messages": messages}
            stream.write(json.dumps({**said, **origin}, ensure_ascii=False, allow_nan=False) + "\n")


def read(form: str, path: Path) -> Iterator[Messages]:
    """Messages of the rows of a file. Raises DataError for rows of another form."""
    if form == DATASETS:
        with parquet.ParquetFile(path) as table:
            for batch in table.iter_batches(GROUP, columns=["messages"]):
                yield from (checked(row["messages"]) for row in batch.to_pylist())
        return
    with path.open(encoding="utf-8", newline="\n") as stream:
        for line in stream:
            row = json.loads(line)
            yield to_openai(row) if form == SHAREGPT else checked(row["messages"])
