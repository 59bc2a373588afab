"""One rank's block of a tensor that is split over ranks, as checkpoints and exports are told of it."""

from dataclasses import dataclass

from torch import Tensor
from torch.distributed.tensor import DTensor


@dataclass(frozen=True)
class Piece:
    """A rectangular block of a global tensor. Several ranks may hold the same block."""

    tensor: Tensor  # the parameter or buffer itself; of a DTensor the block is its local tensor
    shape: tuple[int, ...]  # of the global tensor
    offset: tuple[int, ...]  # of the block's first element in it

    @property
    def local(self) -> Tensor:
        """The block."""
        return local(self.tensor)


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a DTensor, as a plain tensor that shares its memory; of another tensor the tensor itself."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
