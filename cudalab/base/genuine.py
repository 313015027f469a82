"""Notices functions of libraries, of Python and of the lab itself that a spec has replaced.

A spec is a program. One that replaces `time.perf_counter`, an event's `time_till`, `torch.nn.functional.gelu` or a
function of the lab changes what is measured, or what it is compared with. Before the first spec of a user is loaded,
`watch` takes references to what the lab relies on; a library that is imported later is looked at when its import ends.
`replaced` names what is another object since, or has another code. New names are no alarm, since libraries load lazily,
unless they hide something: a method of a base class, or a builtin from a module of the lab. Tables of the lab must hold
what they held, and settings of PyTorch, of the environment and of the process that slow other rows down must be as they
were: also after each turn of a variant (`settled`), since a call may change them for the others and change them back.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from operator import attrgetter, is_, itemgetter
from types import FunctionType, ModuleType
from typing import Any

from cudalab.base import bounded

LAB = "cudalab"
PYTHON = ("builtins", "time", "os", "gc", "ctypes", "json", "threading", "msgspec", "msgspec.json")
LIBRARIES = (
    "numpy", "numpy.linalg", "numpy.random", "scipy.special",
    "torch", "torch._C._nn", "torch.nn.functional", "torch.cuda", "torch.cuda.streams", "torch.cuda.graphs",
    "torch.linalg", "torch.special", "torch.fft", "torch.utils.dlpack",
    "pycuda.driver", "pycuda._driver", "pycuda.compiler", "cupy", "cupy.cuda", "triton", "triton.language",
)  # fmt: skip
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the attributes of other classes cannot be set
CONSTANTS = (bool, int, float, str, bytes, tuple, frozenset)  # of the lab's own modules, where they decide what is done
TABLES = (dict, list, set)  # of the lab's own modules, where their names are those of constants
ENVIRONMENT = (
    "CUDALAB_BLOCKING", "CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_JIT", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TRITON_INTERPRET",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
)  # fmt: skip
COMPILERS = ("TORCHINDUCTOR_", "TORCHDYNAMO_")  # how names in the environment begin that PyTorch's compilers read
PLACES = ("_DIR", "_FOLDER", "_PATH")  # how those end that the lab and PyTorch set themselves
CONFIGS = ("torch._dynamo.config", "torch._inductor.config")  # modules with the settings of PyTorch's compilers
PROCESS: dict[str, Callable[[], object]] = {  # of this process, by what sets them
    "os.sched_setaffinity": lambda: os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None,
    "os.setpriority": lambda: os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else None,
    "signal.setitimer": lambda: _timers(),
    "sys.setprofile": sys.getprofile,
    "sys.setswitchinterval": sys.getswitchinterval,
    "sys.settrace": sys.gettrace,
}
SETTINGS: dict[str, Callable[[Any], object]] = {  # of PyTorch, by what sets them
    "set_num_threads": lambda torch: torch.get_num_threads(),
    "set_default_dtype": lambda torch: torch.get_default_dtype(),
    "use_deterministic_algorithms": lambda torch: torch.are_deterministic_algorithms_enabled(),
    "autograd.set_detect_anomaly": lambda torch: torch.is_anomaly_enabled(),
    "backends.cudnn.enabled": lambda torch: torch.backends.cudnn.enabled,
    "backends.cudnn.deterministic": lambda torch: torch.backends.cudnn.deterministic,
    "backends.mkldnn.enabled": lambda torch: torch._C._get_mkldnn_enabled(),
    "autograd.profiler": lambda torch: torch._C._autograd._profiler_enabled(),
    "overrides.TorchFunctionMode": lambda torch: torch._C._len_torch_function_stack(),
    "utils._python_dispatch.TorchDispatchMode": lambda torch: torch._C._len_torch_dispatch_stack(),
    "_C._jit_set_texpr_fuser_enabled": lambda torch: torch._C._jit_texpr_fuser_enabled(),
    "compiler.set_stance": lambda torch: _stance(),
    "backends.cuda.enable_flash_sdp": lambda torch: torch.backends.cuda.flash_sdp_enabled(),
    "backends.cuda.enable_mem_efficient_sdp": lambda torch: torch.backends.cuda.mem_efficient_sdp_enabled(),
    "backends.cuda.enable_cudnn_sdp": lambda torch: torch.backends.cuda.cudnn_sdp_enabled(),
}
OWN = (f"{LAB}.kernels.", f"{LAB}.studies.")  # the lab's specs, which hold no machinery


class _Owner:
    """What a module or a class held when it was first seen: the objects that are watched, and the names of all."""

    def __init__(self, owner: ModuleType | type, path: str, watched: Mapping[str, object]) -> None:
        self.owner, self.path, self.watched = owner, path, watched
        self._get = itemgetter(*watched) if len(watched) > 1 else lambda now: tuple(now[name] for name in watched)
        self._values = tuple(watched.values())
        self.names = frozenset(vars(owner))
        functions = {name: getattr(value, "__func__", value) for name, value in watched.items()}
        self.functions = {name: f for name, f in functions.items() if isinstance(f, FunctionType)}
        self.codes = [f.__code__ for f in self.functions.values()]

    def replaced(self) -> Iterator[str]:
        """The names of what was replaced, has other code, or hides something; quick where there is nothing."""
        now = vars(self.owner)
        if not self._as_before(now):
            root = self.path.partition(".")[0]
            differ = (name for name, value in self.watched.items() if now.get(name) is not value)
            yield from (f"{self.path}.{name}" for name in differ if not _by_the_library(now.get(name), root))
        if not all(map(is_, map(_CODE, self.functions.values()), self.codes)):
            pairs = zip(self.functions.items(), self.codes, strict=True)
            yield from (f"{self.path}.{name}" for (name, function), code in pairs if function.__code__ is not code)
        if not now.keys() <= self.names:
            yield from (f"{self.path}.{name}" for name in now.keys() - self.names if _hides(self.owner, name))

    def _as_before(self, now: Mapping[str, object]) -> bool:
        """Whether each watched name has the object that it had. All of thousands take half a millisecond."""
        try:
            return all(map(is_, self._get(now), self._values))
        except KeyError:  # a name is gone
            return False


_CODE = attrgetter("__code__")
_owners: list[_Owner] = []
_known: set[int] = set()  # ids of the modules and classes in `_owners`
_tables: list[tuple[str, Any, list[object]]] = []  # the name of each, and what it held
_settings: dict[str, object] = {}  # their first values, by name
_configs: dict[str, dict[str, object]] = {}  # those of CONFIGS, by module and name
_caught: set[str] = set()  # settings that were found to differ, and may have been changed back since


def watch() -> None:
    """Begin to watch. Later calls do nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path) or _owners:
        return
    _settings.update(_outside())
    for name, module in list(sys.modules.items()):
        if _watched(name):
            _look_at(module)
    sys.meta_path.insert(0, _Finder())


def replaced() -> list[str]:
    """The names of what was replaced since it was first seen, such as "time.perf_counter"; [] if nothing was watched.

    A millisecond or two.
    """
    found = [name for owner in _owners for name in owner.replaced()]
    found += [name for name, table, held in _tables if not _alike(_held(table), held)]
    settled()
    found += _caught
    if _owners and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        found.append("sys.meta_path")  # a library that is imported from now on would not be seen
    return sorted(set(found))


def settled() -> None:
    """Look at the settings alone, and keep in mind which differ: some microseconds, so it is done again and again."""
    now = _outside() | _of_torch() if _settings else {}
    _caught.update(name for name, first in _settings.items() if now.get(name, first) != first)
    of_environment = {name for name in _settings.keys() | now.keys() if name.startswith("os.environ")}
    _caught.update(name for name in of_environment if now.get(name) != _settings.get(name))


def configured() -> list[str]:
    """The settings of PyTorch's compilers that differ from what they were when the compilers were loaded.

    The compilers may change some themselves when they compile, so this is asked when a spec has been loaded.
    """
    now = {name: sys.modules[name].get_config_copy() for name in _configs if name in sys.modules}
    return [f"{m}.{key}" for m, values in now.items() for key, value in values.items() if _configs[m].get(key) != value]


def _outside() -> dict[str, object]:
    """The settings of the environment and of the process, by name."""
    names = [*ENVIRONMENT, *(n for n in os.environ if n.startswith(COMPILERS) and not n.endswith(PLACES))]
    return {f"os.environ[{name!r}]": os.environ.get(name) for name in names} | {
        n: read() for n, read in PROCESS.items()
    }


def _timers() -> object:
    """Which of the timers run whose signals interrupt whatever is done, but for the one that ends a spec's code."""
    if not hasattr(signal, "getitimer"):
        return None
    of_work = (signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return [bounded.alarm_of_others(), *(any(signal.getitimer(one)) for one in of_work)]


def _stance() -> object:
    """How torch.compile compiles; "default" before its compiler is loaded."""
    frame = sys.modules.get("torch._dynamo.eval_frame")
    return getattr(getattr(frame, "_stance", None), "stance", "default")


def refusal(names: Sequence[str], most: int = 5) -> str:
    """What is said of a spec that replaced these."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    them = "it" if len(names) == 1 else "them"
    return f"the spec replaced {', '.join(names[:most])}{more}, which times and verdicts rely on; do not replace {them}"


def _hides(owner: ModuleType | type, name: str) -> bool:
    """Whether a new name takes the place of what was found under it before."""
    if isinstance(owner, type):
        return any(name in vars(base) for base in owner.__mro__[1:])
    lazy = isinstance(vars(owner)[name], ModuleType)  # a package's own module, such as cudalab.engine.round
    return owner.__name__.startswith(f"{LAB}.") and name in vars(builtins) and not name.startswith("__") and not lazy


def _by_the_library(value: object, root: str) -> bool:
    """Whether a library made this function: torch wraps some of its own when its compiler is loaded."""
    if not isinstance(value, FunctionType) or all(root != name.partition(".")[0] for name in LIBRARIES):
        return False
    home = value.__globals__.get("__name__", "")
    return home.partition(".")[0] == root and value.__globals__ is vars(sys.modules.get(home, sys))


def _held(table: Any) -> list[object]:
    """The objects in a table: of a dict its keys and values."""
    return [*table, *table.values()] if isinstance(table, dict) else list(table)


def _alike(now: Sequence[object], before: Sequence[object]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _of_torch() -> dict[str, object]:
    """PyTorch's settings, by name; none before it is loaded."""
    torch = sys.modules.get("torch")
    return (
        {f"torch.{name}": _read(torch, read) for name, read in SETTINGS.items()} if hasattr(torch, "backends") else {}
    )


def _read(torch: Any, read: Callable[[Any], object]) -> object:
    try:
        return read(torch)
    except AttributeError:  # an older PyTorch
        return None


def _watched(name: str) -> bool:
    return (
        name in PYTHON
        or name in LIBRARIES
        or name in CONFIGS
        or (name.startswith(f"{LAB}.") and not name.startswith(OWN))
    )


def _look_at(module: Any) -> None:
    """Take references to a module's functions and to the methods of its own classes."""
    if not isinstance(module, ModuleType) or id(module) in _known:
        return
    _known.add(id(module))
    root = module.__name__.partition(".")[0]
    if module.__name__ in CONFIGS:
        if hasattr(module, "get_config_copy"):  # an older PyTorch lacks it
            _configs[module.__name__] = module.get_config_copy()
        return
    if module.__name__ == "torch":
        _settings.update(_of_torch())
    watched = {}
    for name, value in list(vars(module).items()):
        if name.startswith("__") and name.endswith("__"):  # the import system's own
            continue
        fixed = (*CONSTANTS, *TABLES) if name.isupper() else CONSTANTS
        if callable(value) or isinstance(value, ModuleType) or (root == LAB and isinstance(value, fixed)):
            watched[name] = value
        if root == LAB and isinstance(value, TABLES) and name.isupper():
            _tables.append((f"{module.__name__}.{name}", value, _held(value)))
        if isinstance(value, type) and id(value) not in _known and _own(value, root):
            _known.add(id(value))
            path = f"{value.__module__}.{value.__qualname__}"
            methods = {n: v for n, v in list(vars(value).items()) if callable(v) or hasattr(v, "__get__")}
            _owners.append(_Owner(value, path, methods))
    _owners.append(_Owner(module, module.__name__, watched))


def _own(value: type, root: str) -> bool:
    """Whether this class is of the package `root`, and its attributes can be set."""
    return bool(value.__flags__ & HEAP_TYPE) and (value.__module__ or "").partition(".")[0] == root


class _Finder(MetaPathFinder):
    """Finds nothing by itself: it has a watched module looked at when the outermost import under way ends."""

    def __init__(self) -> None:
        self.depth = 0
        self.pending: list[ModuleType] = []

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not _watched(name):
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            if (found := finder.find_spec(name, path, target)) is not None:
                if found.loader is not None and hasattr(found.loader, "exec_module"):
                    found.loader = _Looking(found.loader, self)
                return found
        return None


class _Looking(Loader):
    """Another loader, after which the module is looked at."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def __getattr__(self, name: str) -> Any:  # such as get_resource_reader, for those who only ask for the spec
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__
        module.__spec__.loader = module.__loader__ = self._loader  # what the module finds is as without this
        finder = self._finder
        finder.depth += 1
        try:
            self._loader.exec_module(module)
        finally:
            finder.depth -= 1
        finder.pending.append(module)
        if not finder.depth:  # a package may still change its modules while it is being imported
            for one in finder.pending:
                _look_at(one)
            finder.pending.clear()
