"""What a wrong result has to do with what the output held before: elements never written, or read first."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

READ_FIRST, NEVER_WRITTEN = "is read before it is written", "never written"


class Evidence:
    """What runs on several contents of the outputs leave in them, by name."""

    def __init__(self) -> None:
        self._right_on_zeros = False
        self._before: dict[str, np.ndarray] = {}  # of the first run, the bytes by element
        self._varied: dict[str, np.ndarray] = {}  # elements that began with several contents
        self._kept: dict[str, np.ndarray] = {}  # elements that every run left as they were
        self._shapes: dict[str, tuple[int, ...]] = {}

    def add(self, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray], right: bool) -> None:
        """A run that found the outputs as `before` and left `after`, which is `right` or not."""
        self._right_on_zeros |= right and not any(
            array.view(np.uint8).any() for array in map(np.ravel, before.values())
        )
        for name, array in before.items():
            old, new = _by_element(array), _by_element(after[name])
            first, same = self._before.setdefault(name, old), np.ones(len(old), bool)
            self._shapes[name] = array.shape
            self._varied[name] = self._varied.get(name, ~same) | (old != first).any(axis=1)
            self._kept[name] = self._kept.get(name, same) & (old == new).all(axis=1)

    def never_written(self, names: Collection[str]) -> str:
        """Which elements of these outputs no run has written; "" for none."""
        for name in names:
            shape = self._shapes[name]
            at = np.flatnonzero(self._kept[name] & self._varied[name])
            if at.size == self._kept[name].size > 1:
                return f"the elements of {name} are {NEVER_WRITTEN}"
            if at.size:
                first = ", ".join(str(int(i)) for i in np.unravel_index(at[0], shape))
                return f"{NEVER_WRITTEN}: {at.size:,} of {self._kept[name].size:,} elements of {name}, first [{first}]"
        return ""

    def read_first(self, name: str, output: bool) -> str:
        """What to do about an array whose contents decide whether results are right: an output, or a workspace."""
        do, value = ("zero", "0") if self._right_on_zeros else ("set", "VALUE")
        if output:
            return f'{name} {READ_FIRST}: {do} it in the kernel, or give outputs={{"{name}": Out(fill={value})}}'
        return (
            f"{name} {READ_FIRST}: is a barrier or a fence missing before the read? If not, {do} it in the kernel, or "
            f'give workspace={{"{name}": Work(fill={value})}}'
        )


def _by_element(array: np.ndarray) -> np.ndarray:
    """The bytes of an array, a row for each element."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
