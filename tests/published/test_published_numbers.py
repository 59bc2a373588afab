"""The published numbers against arithmetic, against each other and against the facts pages where those are at hand."""

import json
import re
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from trex import paths
from trex.model.config import ModelConfig
from trex.model.published_layouts import published_layout
from trex.published import PublishedError, Row, load, names
from trex.published.arithmetic import counts, scores

SHARED = Path(paths.CHECKOUT).parent / "shared"
with_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the facts pages are not at hand")


def value(path: str) -> float:
    table, row, column = path.split(".")
    return load(table)[row][column].value


def exact(path: str) -> Decimal:
    return Decimal(str(value(path)))


def rounded(number: Decimal, digits: str = "0.01") -> Decimal:
    return number.quantize(Decimal(digits), ROUND_HALF_UP)


def test_mfu_gain_is_2_93() -> None:
    assert rounded(exact("mfu_ladder.kernels.mfu") / exact("mfu_ladder.open_recipe.mfu")) == exact(
        "headline.mfu_gain.value"
    )
    assert value("headline.mfu_gain.value") == 2.93


def test_step_seconds_of_the_ladder() -> None:
    steps = [row["step_s"] for row in load("mfu_ladder")]
    assert [round(step.value, 1) for step in steps] == [78.1, 35.3, 33.7, 26.6]
    assert all(step.label == "derived" and step.formula for step in steps)
    # the same work at each step: MFU × time is one constant
    assert len({round(row["mfu"].value * row["step_s"].value, 9) for row in load("mfu_ladder")}) == 1
    # and the last one meets the step time of the earlier news
    assert abs(steps[-1].value / value("headline.news_step.value") - 1) < 0.02


def interval(row: Row, column: str, digits: int) -> tuple[Fraction, Fraction]:
    half = Fraction(1, 2 * 10**digits)
    middle = Fraction(str(row[column].value))
    return middle - half, middle + half


def test_communication_shares() -> None:
    table = load("step_profile")
    groups, total = table.where(kind="communication"), table["communication"]
    assert sum(Decimal(str(row["share_of_communication"].value)) for row in groups) == 100
    assert sum(Decimal(str(row["share_of_kernel_time"].value)) for row in groups) == Decimal("52.2")
    # 40.75 and 40.76: the total was not summed from rounded rows
    assert abs(
        sum(Decimal(str(row["seconds"].value)) for row in groups) - exact("step_profile.communication.seconds")
    ) <= Decimal("0.02")
    for row in groups:
        low, high = interval(row, "seconds", 2)
        share_low, share_high = interval(row, "share_of_communication", 1)
        all_low, all_high = interval(total, "seconds", 2)
        assert share_low <= 100 * high / all_low and 100 * low / all_high <= share_high, row.id


def test_every_communication_row_gives_one_kernel_time() -> None:
    bounds = []
    for row in [*load("step_profile").where(kind="communication"), load("step_profile")["communication"]]:
        low, high = interval(row, "seconds", 2)
        share_low, share_high = interval(row, "share_of_kernel_time", 1)
        bounds.append((100 * low / share_high, 100 * high / share_low))
    low, high = max(b[0] for b in bounds), min(b[1] for b in bounds)
    assert low <= high and low > 78.0 and high < 78.1
    assert low <= value("step_profile.kernel_time.seconds") <= high


def test_every_operator_row_gives_36_66_seconds() -> None:
    bounds = []
    for row in load("step_profile").where(kind="operator"):
        if row.id == "unlisted":
            continue
        low, high = interval(row, "mean_us", 0)
        share_low, share_high = interval(row, "share", 2)
        calls = Fraction(row["calls"].value)
        bounds.append((calls * low / 10_000 / share_high, calls * high / 10_000 / share_low))
        assert bounds[-1][0] <= row["compute_s"].value <= bounds[-1][1]
    low, high = max(b[0] for b in bounds), min(b[1] for b in bounds)
    assert low <= Fraction("36.66") <= high and high - low < Fraction("0.03")
    assert round(value("step_profile.unlisted.share"), 2) == 16.45


@pytest.mark.parametrize(
    ("gain", "more", "less", "column"),
    [
        ("gain_over_gpt", "flash_trex", "gpt_5_4_mini", "average"),
        ("gain_over_base", "flash_trex", "flash_base", "average"),
        ("gain_orgeval", "flash_trex", "flash_sft", "b4o_orgeval"),
        ("gain_feasible", "flash_trex", "flash_sft", "b4o_feasible"),
        ("gain_pro_sft", "pro_sft", "pro_base", "average"),
        ("gain_pro", "pro_trex", "pro_base", "average"),
    ],
)
def test_stated_gains_are_differences_of_stated_scores(gain: str, more: str, less: str, column: str) -> None:
    difference = exact(f"or_scores.{more}.{column}") - exact(f"or_scores.{less}.{column}")
    assert difference == exact(f"headline.{gain}.value")


def test_gain_over_base_is_11_27_between_rounded_averages_only() -> None:
    def mean(row: str) -> Decimal:
        columns = ("nl4opt", "optibench", "b4o_feasible", "b4o_orgeval")
        return sum((exact(f"or_scores.{row}.{c}") for c in columns), Decimal(0)) / 4

    gain = mean("flash_trex") - mean("flash_base")
    assert rounded(gain) == Decimal("11.28") != exact("headline.gain_over_base.value") == Decimal("11.27")


@pytest.mark.parametrize("row", ["flash_base", "flash_sft", "flash_trex", "pro_base", "pro_sft", "pro_trex"])
def test_averages_follow_from_their_rows(row: str) -> None:
    scores = [exact(f"or_scores.{row}.{c}") for c in ("nl4opt", "optibench", "b4o_feasible", "b4o_orgeval")]
    assert rounded(sum(scores, Decimal(0)) / 4) == exact(f"or_scores.{row}.average")
    assert load("or_scores")[row]["exact_average"].value == pytest.approx(float(sum(scores)) / 4, abs=1e-12)


def test_scores_that_are_no_count_over_the_released_set() -> None:
    impossible = [(s.model, s.benchmark, s.value, s.n) for s in scores() if not s.counts]
    assert impossible == [
        ("Flash + SFT", "NL4OPT", 86.93, 289),
        ("Flash + SFT", "B4O-Feasible", 65.93, 344),
        ("SLAI T-Rex", "NL4OPT", 89.52, 289),
        ("SLAI T-Rex", "OptiBench", 67.12, 600),
        ("Pro + SFT", "B4O-Feasible", 86.04, 344),
        ("Pro + SFT", "B4O-ORGEval", 61.43, 394),
    ]
    assert [s.value for s in scores() if s.slip] == [86.04, 61.43]
    assert len(list(scores())) == 24


def test_counts_agree_with_decimal_rounding() -> None:
    for score in scores():
        by_rounding = []
        for k in range(score.n + 1):
            percent = Decimal(100 * k) / score.n
            if Decimal(str(score.value)) in (rounded(percent), percent.quantize(Decimal("0.01"))):
                by_rounding.append(k)
        assert list(score.counts) == by_rounding
        assert score.below < score.value + 1e-9 and score.value <= score.above + 1e-9
        assert Fraction(score.above - score.below).limit_denominator(1000) == Fraction(100, score.n)
    assert counts(12.5, 8) == (1,) and counts(33.33, 3) == (1,) and counts(33.34, 3) == ()


def test_59_39_is_what_the_pipeline_gives_its_own_references() -> None:
    """A count measured elsewhere, once: what is checked here is only that it is the count behind the printed score."""
    passed, rows = value("benchmark_sets.b4o_orgeval.own_references_passed"), value("benchmark_sets.b4o_orgeval.rows")
    assert load("benchmark_sets")["b4o_orgeval"]["own_references_passed"].label == "measured"
    assert round(100 * passed / rows, 2) == value("or_scores.flash_trex.b4o_orgeval")
    assert [s.counts for s in scores() if s.value == 59.39] == [(int(passed),)]


def test_calls_are_attention_layers_times_micro_batches() -> None:
    found = published_layout(load("layouts")["pro_sft"])
    assert found.layout.micro_batches == 1024 / (512 / (2 * 8)) == 32
    ratios: list[list[int]] = [[] for _ in range(8)]
    for stage in found.layout.stages(found.config):
        ratios[stage.rank] += [found.config.compress_ratios[layer] for layer in stage.layers] + [0] * stage.head
    assert [len(layers) for layers in ratios] == [7, 8, 8, 8, 8, 8, 8, 7]
    assert [layers.count(4) for layers in ratios] == [3, 4, 4, 4, 4, 4, 4, 3]
    profile = load("step_profile")
    for rank in (0, 7):
        assert profile["sparse_attention_backward"]["calls"].value == len(ratios[rank]) * 32 == 224
        assert profile["indexer_loss_backward"]["calls"].value == ratios[rank].count(4) * 32 == 96
    assert profile["grouped_matmul"]["calls"].value == 6 * 7 * 32
    # with the 8 micro-batches of the CPT script the counts do not fit
    assert published_layout(load("layouts")["pro_cpt"]).layout.micro_batches == 8


def test_tokens_per_second_and_die() -> None:
    tokens = 32 * 4096 / 16
    assert round(tokens / 27) == 303 and round(tokens / 26.6) == 308
    rate = value("mfu_ladder.kernels.tokens_per_s_per_die")
    assert tokens / 27 == value("headline.news_rate.value") < rate < tokens / 26.6
    assert value("other_throughput.trex_pro.rate") == rate


def test_hardware_peaks() -> None:
    assert round(value("hardware.peak_cube.value"), 1) == round(24 * 8192 * 1.8e9 / 1e12, 1) == 353.9
    assert round(value("hardware.peak_cube.value") + value("hardware.peak_vector.value")) == 376
    assert 2 * value("hardware.peak_with_vector.value") == value("hardware.peak_package.value")
    assert 2 * value("hardware.hbm_die.value") == value("hardware.hbm_package.value")
    assert value("hardware.pod_nodes.value") * value("hardware.node_packages.value") == value(
        "hardware.pod_packages.value"
    )
    assert value("hardware.pod_nodes.value") * value("hardware.node_cpus.value") == value("hardware.pod_cpus.value")
    assert 2 * value("links.ub_package.bandwidth") == value("links.ub_package_both.bandwidth")


def test_mfu_under_known_formulas() -> None:
    assert round(value("flop_formulas.pro_bridge.mfu"), 1) == 28.0
    parts = [value(f"flop_formulas.pro_bridge_{part}.gflop_per_token") for part in ("attention", "moe", "logits")]
    assert sum(parts) == pytest.approx(value("flop_formulas.pro_bridge.gflop_per_token"), abs=0.06)
    low, high = value("headline.gflop_per_token_low.value"), value("headline.gflop_per_token_high.value")
    assert (round(low, 2), round(high, 2)) == (1.11, 1.15)
    assert round(value("flop_formulas.pro_implied_package.gflop_per_token")) == 418
    bridge, own = (
        value("flop_formulas.flash_bridge.gflop_per_token"),
        value("flop_formulas.flash_formula.gflop_per_token"),
    )
    assert abs(own / bridge - 1) < 0.005
    assert round(value("flop_formulas.flash_cann_implied.gflop_per_token")) == 185
    assert round(value("flop_formulas.flash_cann_sparse.mfu")) == 14
    assert [round(value(f"flop_formulas.pangu_implied_{end}.gflop_per_token")) for end in ("low", "high")] == [386, 436]


def test_other_throughput() -> None:
    assert round(value("other_throughput.pangu_ultra_moe_rate.rate")) == 243
    assert round(value("other_throughput.megascale_moe_rate.rate")) == 979
    assert round(value("other_throughput.dsv3_h800.rate")) == 1543
    whole = value("other_throughput.v4_flash_cann.step_s")
    parts = [row["step_s"].value for row in load("other_throughput").where(kind="ascend step part")]
    assert sum(parts) == pytest.approx(whole, abs=0.01)
    # tokens of a step over its seconds and packages
    assert 1024 * 4096 / whole / 64 == pytest.approx(value("other_throughput.v4_flash_cann.rate"), rel=0.002)


def layer_parameters(size: dict[str, int], ratio: int, experts: int, hashed: bool) -> int:
    d, heads, c, rq, ro, g = (
        size[k] for k in ("hidden_size", "heads", "head_dim", "q_lora_rank", "o_lora_rank", "o_groups")
    )
    total = d * rq + rq + rq * heads * c + d * c + c + heads * c * ro + g * ro * d + heads
    if ratio == 4:
        k = size["index_dim"]
        total += 4 * d * c + 8 * c + c + rq * size["index_heads"] * k + 64 * d + 4 * k * d + 8 * k + k
    elif ratio == 128:
        total += 2 * d * c + 128 * c + c
    total += 3 * d * size["expert_size"] * (experts + 1) + size["experts"] * (d + (not hashed))
    return total + 2 * d + 2 * (96 * d + 27)


@pytest.mark.parametrize(("column", "config"), [("flash", ModelConfig.flash()), ("pro", ModelConfig.pro())])
def test_parameter_counts_follow_from_the_published_sizes(column: str, config: ModelConfig) -> None:
    facts = load("model_facts")
    size = {row.id: int(row[column].value) for row in facts if column in row.numbers}
    d, v = size["hidden_size"], size["vocabulary"]
    ratios = config.compress_ratios
    assert (
        len(ratios) == size["layers"]
        and ratios.count(4) == size["csa_layers"]
        and ratios.count(128) == size["hca_layers"]
    )

    def model(experts: int) -> int:
        layers = (layer_parameters(size, m, experts, i < size["hash_layers"]) for i, m in enumerate(ratios))
        return sum(layers) + 2 * v * d + d + 16 * d + 5

    assert model(size["experts"]) == size["total_counted"]
    mtp = layer_parameters(size, 0, size["experts"], False) + 2 * d * d + 3 * d + 16 * d + 5
    assert mtp == size["mtp_counted"]
    assert size["with_mtp_counted"] == size["total_counted"] + mtp
    active = facts["active_counted"][column].value
    assert (model(size["experts_per_token"]) - v * d) / 1e9 == pytest.approx(active, abs=0.005)
    assert round(active) == facts["active"][column].value
    assert size["total_counted"] / 1e9 == pytest.approx(facts["total"][column].value, rel=0.02)


def test_sizes_agree_with_the_model_of_this_repository() -> None:
    pairs = {
        "hidden_size": "hidden_size", "layers": "num_layers", "heads": "num_heads", "experts": "num_experts",
        "experts_per_token": "experts_per_token", "expert_size": "expert_size", "index_topk": "index_topk",
        "route_scale": "route_scale", "o_groups": "o_groups", "q_lora_rank": "q_lora_rank", "vocabulary": "vocab_size",
        "sinkhorn_iterations": "sinkhorn_iters", "swiglu_limit": "swiglu_limit", "window": "window",
    }  # fmt: skip
    for column, config in (("flash", ModelConfig.flash()), ("pro", ModelConfig.pro())):
        assert {k: value(f"model_facts.{k}.{column}") for k in pairs} == {
            k: getattr(config, v) for k, v in pairs.items()
        }


def test_articles_are_wrong_where_they_are_listed() -> None:
    mistakes = load("article_mistakes")
    assert len(mistakes) == 7
    for row in mistakes:
        assert row.attributes["claim"] and row.attributes["truth"]
        if "claimed" in row.numbers:
            assert row["claimed"].value != row["official"].value
    assert mistakes["flash_total_as_active"]["claimed"].value == value("model_facts.total.flash")
    assert mistakes["authors"]["official"].value == value("headline.authors.value") == 65
    assert mistakes["memory"]["official"].value == value("hardware.hbm_package.value")


def test_what_is_not_public_is_recorded_as_missing() -> None:
    for path in (
        "headline.mfu_definition.value",
        "headline.cpt_tokens.value",
        "mfu_ladder.open_recipe.layout",
        "or_scores.gpt_5_4_mini.nl4opt",
        "step_profile.unlisted.calls",
        "layouts.flash_cpt.dies",
    ):
        with pytest.raises(PublishedError, match="not publicly findable"):
            value(path)


PREFIXED = {1_460_000: "1.46M", 1_410_000: "1.41M", 131_072: "128K"}  # values that the facts pages write with a prefix


def significant_digits(number: float) -> int:
    return len(Decimal(str(number)).normalize().as_tuple().digits)


@with_shared
def test_published_numbers_of_three_digits_stand_in_the_facts_pages() -> None:
    """At least three significant digits: those with fewer, such as 8 or 0.1, stand in any long text by chance."""
    text = "".join(
        (SHARED / "facts" / f"{name}.md").read_text()
        for name in ("trex_report", "deepseek_v4", "or_data_and_eval", "ascend")
    )
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text).replace("−", "-")
    written = {abs(float(number)) for number in re.findall(r"\d*\.?\d+(?:e-?\d+)?", plain)}
    # stated gains, checked by arithmetic above; the Flash SFT script and two other figures, read at their sources
    elsewhere = {("headline", row.id) for row in load("headline") if "gain" in row.id}
    elsewhere |= {("layouts", "flash_sft"), ("article_mistakes", "other_total_as_active")}
    written |= {number for number, form in PREFIXED.items() if re.search(rf"\b{re.escape(form)}", text)}
    judged = [
        (name, row.id, column, number.value)
        for name in names()
        for row in load(name)
        for column, number in row.numbers.items()
        if number.label == "published" and (name, row.id) not in elsewhere and significant_digits(number.value) >= 3
    ]
    assert len(judged) > 250
    assert [found for found in judged if abs(found[-1]) not in written] == []


@with_shared
def test_validation_points_are_the_published_rates() -> None:
    points = json.loads((SHARED / "facts" / "validation_points.json").read_text())["points"]
    published = {
        (number.value, row["sequence"].value if "sequence" in row.numbers else 4096)
        for row in load("other_throughput")
        for column, number in row.numbers.items()
        if column in ("rate", "step_s")
    }
    for point in points:
        if point["label"] == "published":
            assert (point["value"], point["seq_len"]) in published, point["id"]
