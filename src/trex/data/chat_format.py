"""Special tokens and prompt texts of the chat format of DeepSeek-V4, as the release's `encoding_dsv4.py` has them."""

from trex.data.vocabulary import BEGIN, END

USER, ASSISTANT, REMINDER = "<｜User｜>", "<｜Assistant｜>", "<｜latest_reminder｜>"
THINK, END_THINK, DSML = "<think>", "</think>", "｜DSML｜"
SPECIAL = (BEGIN, END, USER, ASSISTANT, REMINDER, THINK, END_THINK, DSML)
CALLS = f"\n\n<{DSML}tool_calls"  # how the part with tool calls begins
EFFORTS = ("high", "max")  # of reasoning; `high` adds nothing to the prompt

# Prompt texts of the format, byte for byte those of the release's encoding_dsv4.py: models were trained on them.
MAX_EFFORT = (
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root "
    "cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial "
    "scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
    "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n"
    "\n"
)
TOOLS_HEAD = (
    "## Tools\n"
    "\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "
    f'"<{DSML}tool_calls>" block like the following:\n'
    "\n"
    f"<{DSML}tool_calls>\n"
    f'<{DSML}invoke name="$TOOL_NAME">\n'
    f'<{DSML}parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</{DSML}parameter>\n'
    "...\n"
    f"</{DSML}invoke>\n"
    f'<{DSML}invoke name="$TOOL_NAME2">\n'
    "...\n"
    f"</{DSML}invoke>\n"
    f"</{DSML}tool_calls>\n"
    "\n"
    'String parameters should be specified as is and set `string="true"`. For all other types (numbers, '
    'booleans, arrays, objects), pass the value in JSON format and set `string="false"`.\n'
    "\n"
    f"If thinking_mode is enabled (triggered by {THINK}), you MUST output your complete reasoning inside "
    f"{THINK}...{END_THINK} BEFORE any tool calls or final response.\n"
    "\n"
    f"Otherwise, output directly after {END_THINK} with tool calls or final response.\n"
    "\n"
    "### Available Tool Schemas\n"
    "\n"
)
TOOLS_TAIL = "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n"
RESPONSE_FORMAT = "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
