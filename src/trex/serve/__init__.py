"""A checkpoint behind an OpenAI-compatible endpoint: `trex serve`, or `trex.serve.app.create_app` for a server."""


class ServeError(ValueError):
    """A folder or a setting that cannot be served."""
