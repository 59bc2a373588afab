"""The one line in which a command tells an error."""


def told(error: BaseException) -> str | None:
    """What is said of an error of ours or of the operating system; None for one that is no user's business.

    Ours are told by the module of their class: importing all rooms to name them takes seconds.
    """
    if not isinstance(error, OSError) and not type(error).__module__.startswith("trex."):
        return None
    return f"trex: {error.brief() if hasattr(error, 'brief') else error}"
