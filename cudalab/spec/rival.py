"""A rival: a callable of anybody's that a spec, or the command line, sets beside a kernel's entries.

In a spec, `rivals={"liger": softmax, "mine": (launch, "out"), "raw": (launch, "out", "cupy")}`. On the command line,
`--rival mine=./mine.py:launch:out`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cudalab.base.errors import InputError, SpecError, message_of, unknown

ARRAYS = ("torch", "cupy", "numpy", "jax")  # whose arrays it takes; the first is usual
DEVICES = ("cuda", "cpu")
OUT = "out"  # it writes into its last argument, and does not return its result
WORDS = (OUT, *ARRAYS, *DEVICES)
NAME = re.compile(r"[A-Za-z_][\w.-]*")
ADVICE = f"functions by name, such as {{'liger': softmax}}, or with words ({', '.join(WORDS)}): {{'mine': (f, 'out')}}"
USAGE = "write NAME=MODULE:FUNCTION, such as mine=./mine.py:softmax, with :out if it writes into its last argument"


@dataclass(frozen=True)
class Rival:
    """A callable, and how it is called."""

    load: Callable[[], Callable[..., Any]]  # imports its module, if it is named by one
    arrays: str = ARRAYS[0]
    out: bool = False
    devices: tuple[str, ...] = DEVICES
    file: Path | None = None  # where it is from, if the command line named a file

    @property
    def runs_on(self) -> tuple[str, ...]:
        """The devices whose arrays its library has."""
        only = {"cupy": ("cuda",), "numpy": ("cpu",)}.get(self.arrays, DEVICES)
        return tuple(device for device in self.devices if device in only)


def fits(value: Any) -> bool:
    """Whether a value of a spec is a callable, or a tuple of one and words."""
    if isinstance(value, Rival):
        return True
    function, *words = value if isinstance(value, tuple) and value else (value,)
    return callable(function) and all(isinstance(word, str) and word in WORDS for word in words) and not clash(words)


def clash(words: Iterable[str]) -> str:
    """Why these words do not go together; "" if they do."""
    given = tuple(words)
    libraries = [word for word in dict.fromkeys(given) if word in ARRAYS]
    if libraries[1:]:
        return f"{' and '.join(libraries)} are two array libraries; give one"
    if "jax" in given and OUT in given:
        return "JAX's arrays cannot be written to; leave out 'out', and return the result"
    runs_on = {"cupy": "cuda", "numpy": "cpu"}.get(libraries[0]) if libraries else None
    if runs_on and (other := set(given) & set(DEVICES) - {runs_on}):
        return f"arrays of {libraries[0]} are not on {other.pop()}; leave it out"
    return ""


def fit_by_name(value: Any) -> bool:
    """Whether a spec's `rivals` are names with callables."""
    return isinstance(value, dict) and all(
        isinstance(name, str) and NAME.fullmatch(name) and fits(one) for name, one in value.items()
    )


def rival_of(value: Any) -> Rival:
    """The rival that a spec gives as a callable, or as a tuple of one and words."""
    if isinstance(value, Rival):
        return value
    function, *words = value if isinstance(value, tuple) else (value,)
    return _called(lambda: function, words)


def _called(load: Callable[[], Callable[..., Any]], words: Iterable[str], file: Path | None = None) -> Rival:
    given = tuple(words)
    arrays = next((word for word in given if word in ARRAYS), ARRAYS[0])
    return Rival(load, arrays, OUT in given, tuple(w for w in given if w in DEVICES) or DEVICES, file)


def parsed(texts: Iterable[str], loaded: Callable[[Path], Any]) -> dict[str, Rival]:
    """Rivals by name from texts such as `mine=./mine.py:softmax:out`; `loaded` imports a file.

    A module is imported when it is used, in a worker. Raises InputError for a text that cannot be read, and for a
    module that is not there.
    """
    found: dict[str, Rival] = {}
    for text in texts:
        label, _, rest = text.rpartition("=")
        module, _, rest = rest.partition(":")
        attribute, *words = rest.split(":")
        name = label or attribute.rpartition(".")[2]
        if not (module and attribute.replace(".", "").isidentifier() and NAME.fullmatch(name)):
            raise InputError(f"cannot read the rival {text!r}; {USAGE}")
        for word in words:
            if word not in WORDS:
                raise unknown("word of a rival", word, WORDS)
        if wrong := clash(words):
            raise InputError(f"the rival {text!r}: {wrong}")
        if name in found:
            raise InputError(
                f"two rivals are named {name}; give one another name, such as {name}2={module}:{attribute}"
            )
        file = _file(module)
        found[name] = _called(_importing(file or module, attribute, loaded), words, file)
    return found


def _file(module: str) -> Path | None:
    """The file that a module's name means, or None where it is installed. Raises InputError if it is neither."""
    path = Path(module)
    if module.endswith(".py") or "/" in module:
        path = path.with_suffix(".py").resolve()
        if not path.is_file():
            raise InputError(f"no file {path} for the rival; {USAGE}")
        return path
    try:
        installed = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        installed = None
    if installed is None:
        beside = Path(*module.split(".")).with_suffix(".py")
        where = f"; there is {beside}: write ./{beside}" if beside.is_file() else "; install it, or give its path"
        raise InputError(f"no module {module.partition('.')[0]!r} for the rival{where}")
    return None


def _importing(module: str | Path, attribute: str, loaded: Callable[[Path], Any]) -> Callable[[], Callable[..., Any]]:
    def load() -> Callable[..., Any]:
        try:
            found = loaded(module) if isinstance(module, Path) else importlib.import_module(module)
        except SpecError:
            raise
        except Exception as error:
            raise SpecError(f"the rival's module {module} cannot be imported: {message_of(error)}") from error
        for name in attribute.split("."):
            if not hasattr(found, name):
                raise SpecError(f"{module}: {unknown('function', name, [n for n in vars(found) if n[0] != '_'])}")
            found = getattr(found, name)
        if not callable(found):
            raise SpecError(f"{module}: {attribute} is a {type(found).__name__}, and cannot be called")
        return found

    return load
