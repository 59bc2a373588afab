"""Special tokens and markup of the chat format of DeepSeek-V4; its sentences are read from the release itself.

Source: the release's `encoding/encoding_dsv4.py`.
"""

from trex.data.vocabulary import BEGIN, END

USER, ASSISTANT, REMINDER = "<｜User｜>", "<｜Assistant｜>", "<｜latest_reminder｜>"
THINK, END_THINK, DSML = "<think>", "</think>", "｜DSML｜"
SPECIAL = (BEGIN, END, USER, ASSISTANT, REMINDER, THINK, END_THINK, DSML)
CALLS = f"\n\n<{DSML}tool_calls"  # how the part with tool calls begins
EFFORTS = ("high", "max")  # of reasoning; `high` adds nothing to the prompt
# fields of the release's template of tools that stand for special tokens
TOKEN_FIELDS = {"dsml_token": DSML, "thinking_start_token": THINK, "thinking_end_token": END_THINK}
