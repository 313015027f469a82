"""What a launch function gets of an array: its shape and dtype, the same on every device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np

from cudalab.base.errors import SpecError

KNOWN = ("shape", "dtype", "size", "ndim", "nbytes", "itemsize")


@dataclass(frozen=True, eq=False)
class ArrayInfo:
    """Stands for an input, an output or an array of the workspace; in a Launch, for its pointer.

    Values and addresses are not here: on a GPU a launch function runs before the array can be read, and what it does
    must not depend on the device. To ask for them raises SpecError.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def __getattr__(self, what: str) -> NoReturn:
        if what.startswith("__") and what != "__array__":
            raise AttributeError(what)
        self._refuse(f"a value of {self.name}" if what == "__array__" else f"{self.name}.{what}")

    def __len__(self) -> int:
        self._refuse(f"len({self.name})", f"; write {self.name}.shape[0]")

    def __getitem__(self, key: object) -> NoReturn:
        self._refuse(f"an element of {self.name}")

    def __iter__(self) -> NoReturn:
        self._refuse(f"an element of {self.name}")

    def __bool__(self) -> bool:
        self._refuse(f"a value of {self.name}")

    def _refuse(self, what: str, instead: str = "") -> NoReturn:
        raise SpecError(f"{what} is not known before a launch; of an array there are {', '.join(KNOWN)}{instead}")


def infos(arrays: Mapping[str, Any]) -> dict[str, ArrayInfo]:
    """Of each array by name."""
    return {name: ArrayInfo(name, tuple(array.shape), np.dtype(array.dtype)) for name, array in arrays.items()}
