"""Layouts under which others trained DeepSeek-V4 on Ascend 910C, as far as they are public.

A field that the source does not state is named in `assumed`, with the reason for its value. dp follows from the number
of dies. Bytes per parameter are stated nowhere: those of Megatron-LM for the launch scripts (MindSpeed documents 12 of
them as optimizer state, all swapped), FP32 shards for FSDP2.
"""

from dataclasses import dataclass, replace

from trex.model.config import ModelConfig
from trex.model.layout import FP32_SHARDS, Layout


@dataclass(frozen=True)
class PublishedLayout:
    """One layout and where it is published."""

    name: str
    config: ModelConfig
    layout: Layout
    seq_len: int  # tokens
    devices: int | None  # dies; None where not public
    source: str
    assumed: tuple[str, ...] = ()  # fields of the layout that are not public
    reason: str = ""  # for the values they were given


def published_layouts() -> tuple[PublishedLayout, ...]:
    """All of them; each passes `Layout.check` for its model, sequence length and, where public, number of dies."""
    return (*_trex(), *_mindspeed(), *_torchtitan())


def _trex() -> tuple[PublishedLayout, ...]:
    pro_config, flash_config = ModelConfig.pro(), ModelConfig.flash()
    shared = Layout(dp=32, sharding="optimizer", recompute="full", swap_optimizer=True)
    pro = replace(
        shared, tp=2, pp=8, vpp=2, ep=64, sequence_parallel=True, schedule="interleaved", noop_layers=(3, 62, 63)
    )
    flash = replace(shared, pp=4, ep=32, global_batch=128, noop_layers=(43,))
    scripts = "SLAI-AITP/SLAI-T-Rex, training/"
    return (
        PublishedLayout(
            "T-Rex Pro CPT", pro_config, replace(pro, global_batch=256), 4096, 512,
            f"{scripts}cpt/train_cpt_deepseek4_pro_4k.sh (74c0179)",
        ),
        PublishedLayout(
            "T-Rex Pro SFT", pro_config, replace(pro, global_batch=1024), 4096, 512,
            f"{scripts}sft/train_sft_deepseek4_pro_4k.sh (be2fd33)",
        ),
        PublishedLayout(
            "T-Rex Flash CPT", flash_config, flash, 4096, None,
            f"{scripts}cpt/train_cpt_deepseek4_flash_4k.sh (74c0179)",
            ("dp",), "the script starts 8 nodes of 16 dies unless told otherwise; EP 32 allows no fewer",
        ),
        PublishedLayout(
            "T-Rex Flash SFT", flash_config, flash, 8192, 128,
            f"{scripts}sft/train_sft_deepseek4_flash_8k.sh (be2fd33)",
        ),
    )  # fmt: skip


def _mindspeed() -> tuple[PublishedLayout, ...]:
    flash = ModelConfig.flash()
    shared = Layout(sharding="optimizer", recompute="full", swap_optimizer=True)
    short = replace(
        shared, tp=2, pp=2, vpp=2, ep=128, dp=64, global_batch=1024, sequence_parallel=True, schedule="interleaved",
        noop_layers=(43,),
    )  # fmt: skip
    long = replace(shared, pp=4, ep=32, cp=16, dp=4, global_batch=64, noop_layers=(43,))
    fsdp = Layout(
        ep=128, dp=256, micro_batch=2, global_batch=2048, sharding="parameters", recompute="full", precision=FP32_SHARDS
    )
    scripts = "Ascend/MindSpeed-LLM, examples/"
    return (
        PublishedLayout("MindSpeed-LLM Flash 4K", flash, short, 4096, 256, f"{scripts}mcore/deepseek4_flash (26.1.0)"),
        PublishedLayout(
            "MindSpeed-LLM Flash 128K", flash, long, 131_072, 256, f"{scripts}mcore/deepseek4_flash (26.1.0)",
            ("schedule", "noop_layers"),
            "44 positions without virtual stages are stated: 1F1B, and the last position empty as in the 4K recipe",
        ),
        PublishedLayout(
            "MindSpeed-LLM Flash FSDP2", flash, fsdp, 4096, 256, f"{scripts}fsdp2/deepseek4 (26.1.0)",
            ("swap_optimizer",), "the recipe names no optimizer swap",
        ),
    )  # fmt: skip


def _torchtitan() -> tuple[PublishedLayout, ...]:
    shared = Layout(sharding="parameters", recompute="full", swap_optimizer=True, precision=FP32_SHARDS)
    configs = "torchtitan-npu, torchtitan_npu/models/deepseek_v4"
    return (
        PublishedLayout(
            "torchtitan-npu Flash", ModelConfig.flash(), replace(shared, ep=128, dp=128, global_batch=1024), 4096, 128,
            f"{configs}/train_configs/deepseek_v4_285b_43layers_4k_128die.toml (7146ad3)",
        ),
        PublishedLayout(
            "torchtitan-npu Pro", ModelConfig.pro(), replace(shared, ep=384, dp=384, global_batch=384), 4096, 384,
            f"{configs}, the Pro recipe (no measurement published)",
            ("ep",), "the recipe says 384 in one place and 192 in another",
        ),
    )  # fmt: skip
