"""Model repositories at Hugging Face and ModelScope, through the clients that they publish.

The clients keep files that are whole when a download is interrupted, and resume a file by HTTP range requests when the
connection drops; ModelScope's goes on with a part of a file in a later run as well.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trex.checkpoint.errors import CheckpointError

HUBS = HUGGINGFACE, MODELSCOPE = "huggingface", "modelscope"


@dataclass(frozen=True)
class Remote:
    """A file of a repository."""

    name: str  # path in the repository
    size: int  # bytes
    sha256: str | None = None
    blob: str | None = None  # SHA-1 as git computes it, for files that git itself holds


class Hub(Protocol):
    """One revision of a repository."""

    def files(self) -> list[Remote]:
        """All its files. Raises CheckpointError that says what to do."""

    def fetch(self, files: Sequence[Remote], folder: Path) -> None:
        """Download files, resuming what is there already. Raises CheckpointError; what is whole stays."""

    def tidy(self, folder: Path) -> None:
        """Remove what the client keeps in the folder for itself."""


class HuggingFace:
    """A model repository at Hugging Face, or at the address in the environment variable HF_ENDPOINT."""

    def __init__(self, repo: str, revision: str | None = None, endpoint: str | None = None) -> None:
        from huggingface_hub import HfApi

        self.repo, self.revision, self.api = repo, revision, HfApi(endpoint=endpoint)

    def files(self) -> list[Remote]:
        """Names, sizes and hashes: SHA-256 of large files, git's SHA-1 of the others. Fixes the revision."""
        from huggingface_hub.hf_api import RepoFile

        try:
            self.revision = self.api.model_info(self.repo, revision=self.revision).sha
            listed = list(self.api.list_repo_tree(self.repo, recursive=True, revision=self.revision))
        except Exception as error:
            raise self._said(error) from error
        return [
            Remote(item.path, item.size, item.lfs.sha256)
            if item.lfs
            else Remote(item.path, item.size, None, item.blob_id)
            for item in listed
            if isinstance(item, RepoFile)
        ]

    def fetch(self, files: Sequence[Remote], folder: Path) -> None:
        """Into `folder`, several at a time."""
        from huggingface_hub import snapshot_download

        names = [file.name.replace("[", "[[]") for file in files]  # they are taken for patterns
        try:
            snapshot_download(
                self.repo,
                revision=self.revision,
                local_dir=folder,
                allow_patterns=names,
                endpoint=self.api.endpoint,
            )
        except Exception as error:
            raise self._said(error) from error

    def tidy(self, folder: Path) -> None:
        """Its notes on each file, in `.cache/huggingface`."""
        shutil.rmtree(folder / ".cache" / "huggingface", ignore_errors=True)
        with suppress(OSError):
            (folder / ".cache").rmdir()

    def _said(self, error: Exception) -> CheckpointError:
        from huggingface_hub import errors

        place, login = self.api.endpoint, "`hf auth login`, or the environment variable HF_TOKEN"
        if isinstance(error, errors.GatedRepoError):
            text = f"{self.repo} is gated: accept its terms at {place}/{self.repo} and log in: {login}"
        elif isinstance(error, errors.RevisionNotFoundError):
            text = f"{self.repo} has no revision {self.revision!r}"
        elif isinstance(error, errors.RepositoryNotFoundError):
            text = f"no model {self.repo!r} at {place}; for a private one log in: {login}"
        elif isinstance(error, errors.HFValidationError):
            text = f"{self.repo!r} names no repository; accepted: owner/name"
        elif isinstance(error, errors.OfflineModeIsEnabled):
            text = f"{self.repo} was not fetched: HF_HUB_OFFLINE is set"
        else:
            text = f"{self.repo} could not be fetched from {place}: {_line(error)}"
        return CheckpointError(text)


class ModelScope:
    """A model repository at ModelScope, or at the address in the environment variable MODELSCOPE_ENDPOINT.

    Raises CheckpointError where its client, the extra `modelscope`, is not installed.
    """

    def __init__(self, repo: str, revision: str | None = None, endpoint: str | None = None) -> None:
        try:
            from modelscope_hub import HubApi, HubConfig
        except ImportError:
            raise CheckpointError("ModelScope's client is missing; pip install -e '.[modelscope]'") from None
        self.repo, self.revision, self.config = repo, revision, HubConfig(endpoint=endpoint)
        self.api = HubApi(self.config)

    def files(self) -> list[Remote]:
        """Names, sizes and SHA-256."""
        try:
            listed = self.api.list_repo_files(self.repo, "model", revision=self.revision)
        except Exception as error:
            raise self._said(error) from error
        return [Remote(item.path, item.size, item.sha256) for item in listed if not item.is_dir]

    def fetch(self, files: Sequence[Remote], folder: Path) -> None:
        """Into `folder`, several at a time."""
        wanted = [{"Path": file.name, "Size": file.size, "Sha256": file.sha256} for file in files]
        try:
            self.api.download_repo(self.repo, "model", revision=self.revision, local_dir=folder, file_list=wanted)
        except Exception as error:
            raise self._said(error) from error

    def tidy(self, folder: Path) -> None:
        """It keeps nothing there."""

    def _said(self, error: Exception) -> CheckpointError:
        from modelscope_hub import errors

        place = self.config.endpoint
        failed = getattr(error, "failed_files", None)
        if isinstance(error, errors.NotExistError):
            wanted = f" with revision {self.revision!r}" if self.revision else ""
            text = f"no model {self.repo!r}{wanted} at {place}"
        elif isinstance(error, errors.AuthenticationError | errors.PermissionDeniedError):
            text = f"{self.repo} is gated or private: accept its terms at {place}, then log in with `ms login`"
        elif failed:
            lines = "; ".join(f"{name}: {_line(reason)}" for name, reason in failed.items())
            text = f"{self.repo}: {len(failed)} files failed: {lines}"
        else:
            text = f"{self.repo} could not be fetched from {place}: {_line(error)}"
        return CheckpointError(text)


def open_hub(name: str, repo: str, revision: str | None = None) -> Hub:
    """A repository at one of HUBS. Raises CheckpointError for another name."""
    if name == HUGGINGFACE:
        return HuggingFace(repo, revision)
    if name == MODELSCOPE:
        return ModelScope(repo, revision)
    raise CheckpointError(f"hub = {name!r}; accepted: {', '.join(HUBS)}")


def _line(error: BaseException) -> str:
    """Kind and first line of an error."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
