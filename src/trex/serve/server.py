"""Uvicorn's server, except that open requests are ended when it shuts down, and not waited for."""

import asyncio
import os
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

GRACE_S = 0.5  # for clients to take their errors


class Server(uvicorn.Server):
    """Serves an application of `create_app`: at its end every request gets the engine's Stopped as its error."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to shut down; a second signal ends the process there and then, whatever the engine is at."""
        if self.should_exit:
            os._exit(128 + sig)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the engine, then whoever has not taken the error in time, then all that uvicorn stops."""
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.engine.stop()
        asyncio.get_running_loop().call_later(GRACE_S, self._hang_up)
        await super().shutdown(sockets)

    def _hang_up(self) -> None:
        """Close what clients keep open, as if they had left: cancelled requests would end in tracebacks."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
