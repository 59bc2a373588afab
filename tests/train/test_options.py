"""Layouts and recipes from texts and files: what is read, and the one line for what is not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trex.model.layout import Layout, LayoutError
from trex.train.options import described, layout, recipe
from trex.train.recipes import TrainError, embedded_cpt, embedded_sft, progressive_sft, published

TEXT = (
    "tp=2,pp=2, vpp=2,ep=2,sharding=parameters,sequence_parallel=true,schedule=zb-v,stage_layers=2/3/1/2,noop_layers="
)
TEXT += "0/7"
FULL = Layout(
    tp=2, pp=2, vpp=2, ep=2, sharding="parameters", sequence_parallel=True, schedule="zb-v", stage_layers=(2, 3, 1, 2),
    noop_layers=(0, 7),
)  # fmt: skip


def test_a_layout_is_read_from_a_text_or_a_file_and_told_in_the_same_form(tmp_path: Path) -> None:
    assert layout("") == Layout() and layout("tp=4") == Layout(tp=4)
    assert layout(TEXT) == FULL == layout(described(FULL))
    assert layout(described(Layout())) == Layout()
    fields = {"tp": 2, "pp": 2, "vpp": 2, "ep": 2, "sharding": "parameters", "sequence_parallel": True}
    fields |= {"schedule": "zb-v", "stage_layers": [2, 3, 1, 2], "noop_layers": [0, 7]}
    (tmp_path / "layout.json").write_text(json.dumps(fields))
    (tmp_path / "layout.yaml").write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items()))
    assert layout(str(tmp_path / "layout.json")) == layout(str(tmp_path / "layout.yaml")) == FULL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tq=2", "layout field 'tq'; accepted: tp, pp, vpp, ep"),
        ("micro_batch=2", r"layout field 'micro_batch'; accepted: .*; rows are the recipe's \(--set\)"),
        ("precision=2", "layout field 'precision'"),
        ("tp", "'tp'; accepted: name=value"),
        ("tp=", "'tp='; accepted: name=value"),
        ("tp=2,tp=4", "tp is given twice: 2 and 4"),
        ("tp=two", "tp = 'two'; accepted: integers from 1"),
        ("tp=2.0", "tp = '2.0'; accepted: integers from 1"),
        ("tp=0x2", "tp = '0x2'"),
        ("tp=-1", "tp = -1; accepted: integers from 1"),
        ("tp=true", "tp = True; accepted: integers from 1"),
        ("sharding=zero3", "sharding = 'zero3'; accepted: none, optimizer"),
        ("sequence_parallel=1", "sequence_parallel = '1'; accepted: True, False"),
        ("pp=2,stage_layers=2/x", "stage_layers = '2/x'; accepted: None, or a tuple"),
        ("nowhere.yaml", "nowhere.yaml cannot be read: No such file"),
    ],
)
def test_what_no_layout_can_be_is_named(text: str, said: str) -> None:
    with pytest.raises(LayoutError, match=said):
        layout(text)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("- tp", "holds a list; accepted: a mapping of fields"),
        ("tp: [", "cannot be read"),
        ("2: 2", "holds a dict; accepted: a mapping"),
        ("tp: !!python/name:os.system 3", "cannot be read"),
        ("tp: {a: 1}", "tp = {'a': 1}; accepted: integers"),
        ("stage_layers: {a: 1}", "stage_layers = {'a': 1}; accepted"),
        ("sharding: [none]", r"sharding = \('none',\); accepted"),
    ],
)
def test_a_file_that_holds_no_layout_is_named(tmp_path: Path, body: str, said: str) -> None:
    (tmp_path / "l.yaml").write_text(body)
    with pytest.raises(LayoutError, match=said):
        layout(str(tmp_path / "l.yaml"))


def test_a_recipe_is_read_by_name_or_file_and_changed(tmp_path: Path) -> None:
    assert recipe("embedded_cpt", seed=3) == embedded_cpt(3) and recipe("embedded_sft", seed=3) == embedded_sft(3)
    assert recipe("published_pro_sft") == published("pro_sft")
    assert recipe("published_sft_clean_cot") == progressive_sft("clean_cot")
    changed = recipe(
        "embedded_cpt", ["steps=100", "peak_lr=3e-3", "betas=0.9/0.95", "recompute=true", "indexer=frozen"]
    )
    expected = replace(embedded_cpt(), steps=100, peak_lr=3e-3, betas=(0.9, 0.95), recompute=True, indexer="frozen")
    assert changed == expected
    body = "steps: 9\nglobal_batch: 4\nmicro_batch: 2\nseq_len: 64\npeak_lr: 1e-3\nmin_lr: 0\nwarmup_steps: 1\n"
    (tmp_path / "r.yaml").write_text(body + "betas: [0.8, 0.9]\nseed: 5\n")
    found = recipe(str(tmp_path / "r.yaml"), ["micro_batch=1"], seed=7)
    assert (found.steps, found.micro_batch, found.peak_lr, found.betas, found.seed) == (9, 1, 1e-3, (0.8, 0.9), 5)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("mine", [], "recipe 'mine'; accepted: embedded_cpt, embedded_sft, published_flash_cpt, "),
        ("embedded_cpt", ["step=1"], "recipe field 'step'; accepted: steps"),
        ("embedded_cpt", ["steps=1.5"], "steps = '1.5'; accepted: whole numbers"),
        ("embedded_cpt", ["steps=5"], "warmup_steps = 10; accepted: below steps = 5"),
        ("embedded_cpt", ["peak_lr=fast"], "peak_lr = 'fast'; accepted: numbers"),
        ("embedded_cpt", ["peak_lr=nan"], "peak_lr = nan; accepted: above 0"),
        ("embedded_cpt", ["betas=0.9"], "betas = '0.9'; accepted: two"),
        ("embedded_cpt", ["recompute=yes"], "recompute = 'yes'; accepted: true, false"),
        ("embedded_cpt", ["steps=1", "steps=2"], "steps is given twice"),
        ("nowhere.json", [], "nowhere.json cannot be read"),
    ],
)
def test_what_no_recipe_can_be_is_named(name: str, changes: list[str], said: str) -> None:
    with pytest.raises(TrainError, match=said):
        recipe(name, changes)


def test_a_file_has_to_give_what_has_no_default(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("steps: 9\nseq_len: 64\n")
    with pytest.raises(TrainError, match=r"r\.yaml lacks global_batch, micro_batch, peak_lr, min_lr, warmup_steps"):
        recipe(str(tmp_path / "r.yaml"))
    for bad in ("betas: 3", "betas: [1, x]", "steps: true", "steps: [1]", "indexer: 3", "peak_lr: {}"):
        (tmp_path / "r.yaml").write_text(bad)
        with pytest.raises(TrainError, match="accepted: "):
            recipe(str(tmp_path / "r.yaml"))
