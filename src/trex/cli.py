"""The `trex` command."""


def main() -> int:
    """Entry point; filled in by trex.launch."""
    raise SystemExit("not yet")
