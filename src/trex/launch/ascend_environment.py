"""Environment variables of HCCL, CANN and torch_npu that matter to training, with value, unit, reason and source.

Nothing here was run on an NPU: values come from the paper's launch scripts (published/launch_flags.yaml) and from the
documentation named beside each, for Atlas A3. A variable without a value is left to its default, for the reason given.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

CANN = "hiascend.com, canncommercial/900/maintenref/envvar/"
TORCH_NPU = "hiascend.com, Pytorch/710/comref/Envvariables/"
SCRIPTS = "launch scripts"
CONNECT_S = (120, 7200)  # the seconds that HCCL_CONNECT_TIMEOUT accepts


class AscendEnvironmentError(ValueError):
    """A time-out that HCCL does not accept."""


@dataclass(frozen=True)
class Variable:
    """One variable: the value that training sets, None where it sets none, its unit, why, and who documents it."""

    name: str
    value: str | None
    unit: str
    reason: str
    source: str


TIMEOUTS = (
    Variable(
        "HCCL_CONNECT_TIMEOUT", None, "s",
        "the time in which ranks must connect: the job's time-out, from 120 (also the default) to 7200; HCCL adds 20. "
        "Sends and receives connect when they are first used, which in a pipeline is late",
        CANN + "envref_07_0077",
    ),
    Variable(
        "HCCL_EXEC_TIMEOUT", None, "s",
        "how long a collective waits for a rank, by default 1836: below the job's time-out, so that HCCL's own message "
        "comes before torch's, as torch_npu's documentation advises (Pytorch/600/apiref/Envvariables/Envir_028)",
        CANN + "envref_07_0078",
    ),
    Variable(
        "HCCL_EVENT_TIMEOUT", None, "s",
        "how long a stream waits for an event, by default 1868; it must be above HCCL_EXEC_TIMEOUT",
        TORCH_NPU + "Envir_020",
    ),
)  # fmt: skip
SETTINGS = (
    Variable(
        "HCCL_ASYNC_ERROR_HANDLING", "1", "",
        "the watchdog that ends a process whose collective failed; the default since torch 2.1, said here because the "
        "end of a job depends on it",
        "hiascend.com, Pytorch/600/apiref/Envvariables/Envir_028",
    ),
    Variable(
        "HCCL_BUFFSIZE", "256", "MB",
        "buffer of a communicator, which takes twice that on the device; at least a micro-batch's activations "
        "(4096 tokens x 7168 channels x 2 bytes: 56 MB), by default 200; more groups cost more memory",
        f"{SCRIPTS}; {CANN}envref_07_0080",
    ),
    Variable(
        "HCCL_ALGO", "alltoall=level0:NA;level1:pipeline", "",
        "the experts' all-to-all uses the links inside and between servers at the same time; other collectives choose "
        "by themselves, as they are not named",
        f"{SCRIPTS}; {CANN}envref_07_0079",
    ),
    Variable(
        "TASK_QUEUE_ENABLE", "2", "level",
        "operators are queued by a second thread, with workspaces too (level 2, default 1): the host is the bottleneck "
        "of small operators; may raise the peak of memory",
        f"{SCRIPTS}; {TORCH_NPU}Envir_007",
    ),
    Variable(
        "CPU_AFFINITY_CONF", "1", "mode",
        "each process on the cores of its device's share (1, coarse), so that memory stays on one NUMA node; off by "
        "default; 2 also pins the threads",
        f"{SCRIPTS}; hiascend.com, Pytorch/700/ptmoddevg/Frameworkfeatures/featuresguide_00010",
    ),
    Variable(
        "PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True", "",
        "uneven numbers of tokens per expert fragment the allocator's fixed segments",
        f"{SCRIPTS}; {TORCH_NPU}Envir_012",
    ),
)  # fmt: skip
LEFT_ALONE = (
    Variable(
        "HCCL_OP_EXPANSION_MODE", None, "",
        "AI_CPU by default on A3, with every collective and deterministic reductions; AIV is documented for inference "
        "only, not for several communicators at once, and not between SuperPODs. The launch scripts write AIV under "
        "HCCL_OP_EXTENSION_MODE, a name that CANN does not document, so it probably had no effect",
        CANN + "envref_07_0096",
    ),
    Variable(
        "HCCL_DETERMINISTIC", None, "",
        "false by default; true on request: the same sums in every run on A2, slower; on A3 they are so under AI_CPU",
        CANN + "envref_07_0099",
    ),
    Variable(
        "HCCL_SOCKET_IFNAME", None, "",
        "the host's interface over which ranks meet: for the machine's owner to name where it has several",
        "hiascend.com, canncommercial/850/commlib/hcclug/hcclug_000088",
    ),
    Variable(
        "HCCL_IF_BASE_PORT", None, "port",
        "first of 32 ports on the host, by default 60000: outgoing connections take them too unless "
        "net.ipv4.ip_local_reserved_ports keeps them free; another value per job on shared nodes",
        CANN + "envref_07_0074",
    ),
    Variable(
        "P2P_HCCL_BUFFSIZE", None, "MB",
        "a communicator of their own for sends and receives, with twice this on the device; 20 by default since "
        "torch_npu 7.1.0, 0 for none where memory is short",
        TORCH_NPU + "Envir_021",
    ),
    Variable(
        "ASCEND_LAUNCH_BLOCKING", None, "",
        "1 finds the operator that failed, and switches the task queue off: for debugging",
        TORCH_NPU + "Envir_006",
    ),
    Variable(
        "TORCH_HCCL_ZERO_COPY", None, "",
        "beta: collectives without a copy on the device; to be measured before it is set",
        "hiascend.com, Pytorch/720/comref/Envvariables",
    ),
)  # fmt: skip
VARIABLES = TIMEOUTS + SETTINGS + LEFT_ALONE


def ascend_environment(
    timeout_s: float, environ: Mapping[str, str] = os.environ, deterministic: bool = False
) -> dict[str, str]:
    """What to add to the environment of a training process on NPUs before torch_npu is loaded; not run on an NPU.

    timeout_s: of the job's process group, 10 s or more. environ: what is set already, which is kept. deterministic:
    sums of collectives in a fixed order. Raises AscendEnvironmentError.
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 10 <= timeout_s <= 2**31 - 1:
        raise AscendEnvironmentError(f"timeout_s {timeout_s!r}; accepted: seconds from 10 to 2147483647")
    low, high = CONNECT_S
    seconds = math.floor(timeout_s)
    wanted = {variable.name: variable.value for variable in SETTINGS} | {
        "HCCL_CONNECT_TIMEOUT": str(min(max(seconds, low), high)),
        "HCCL_EXEC_TIMEOUT": str(seconds - max(1, seconds // 10)),
        "HCCL_EVENT_TIMEOUT": str(seconds),
        "HCCL_DETERMINISTIC": "true" if deterministic else None,
    }
    return {name: value for name, value in wanted.items() if value is not None and name not in environ}
