"""Megatron's indexed data sets: `PREFIX.bin` with the tokens, `PREFIX.idx` with where each document lies.

All numbers are little-endian. The index: the nine bytes MMIDIDX 0 0; version 1, uint64; a code for the tokens' type,
uint8; the number of sequences and that of document bounds, uint64; the length of each sequence in tokens, int32; where
each begins in the .bin file in bytes, int64; the bounds, int64: the first sequence of each document, and their number.
Here a sequence is a document, from its begin token to its end token. Megatron and MindSpeed read such a pair by
`--train-data-path PREFIX`.
"""

import json
import struct
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trex.data.mixture.folder import Mixture, digest, dtype_of
from trex.files import folder_atomic

MAGIC, VERSION = b"MMIDIDX\x00\x00", 1
CODES = {np.uint16: 8, np.int32: 4}
SUFFIX = "_text_document"  # which Megatron's preprocessing adds to a prefix
STATED = "megatron.json"


def write(prefix: Path, documents: Iterable[NDArray[np.int32]], vocab_size: int) -> dict[str, Any]:
    """Write PREFIX.bin and PREFIX.idx; what they hold. One document's tokens are in memory, and 20 bytes of each.

    uint16 for vocabularies below 65,500, else int32, which is Megatron's choice too.
    """
    kind = dtype_of(vocab_size)
    lengths = array("i")
    data, index = (prefix.with_name(prefix.name + suffix) for suffix in (".bin", ".idx"))
    with data.open("wb") as stream:
        for ids in documents:
            stream.write(ids.astype(np.dtype(kind).newbyteorder("<")).tobytes())
            lengths.append(len(ids))
    sizes = np.frombuffer(lengths, dtype=np.int32) if lengths else np.zeros(0, dtype=np.int32)
    ends = np.cumsum(sizes, dtype=np.int64)
    starts = (ends - sizes) * np.dtype(kind).itemsize
    with index.open("wb") as stream:
        stream.write(MAGIC + struct.pack("<QBQQ", VERSION, CODES[kind], len(sizes), len(sizes) + 1))
        stream.write(sizes.astype("<i4").tobytes())
        stream.write(starts.astype("<i8").tobytes())
        stream.write(np.arange(len(sizes) + 1, dtype="<i8").tobytes())
    return {
        "documents": len(sizes),
        "tokens": int(ends[-1]) if len(ends) else 0,
        "dtype": np.dtype(kind).name,
        "bin_sha256": digest(data),
        "idx_sha256": digest(index),
    }


def export(mixture: Mixture, folder: Path, replace: bool = False) -> dict[str, Any]:
    """Write each split of a mixture as such a pair, with the tokenizer and what is there in megatron.json.

    The folder appears whole or not at all. Raises DataError for a mixture that was changed, FileExistsError.
    """
    kept = mixture.tokenizer()
    with folder_atomic(folder, replace) as made:
        stated: dict[str, Any] = {
            "tokenizer": kept.to_dict(),
            "splits": {
                split: write(made / f"{split}{SUFFIX}", mixture.documents(split), kept.tokenizer.vocab_size)
                for split in mixture.splits
            },
        }
        (made / kept.file).write_bytes(kept.body)
        (made / STATED).write_text(json.dumps(stated, indent=1) + "\n")
    return stated
