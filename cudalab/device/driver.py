"""The CUDA driver: the one module that binds it. PyCUDA, and through ctypes what PyCUDA lacks.

PyCUDA allocates, copies, compiles, and launches what is timed. It cannot wrap a stream of another library, show a
function's handle or capture a graph; for these the lab calls libcuda itself. Others take both from here: `pycuda()`
and `libcuda()`. Handles of contexts, streams, functions and graphs are integers.

Chosen by bench/call_path.py on an H200 (bench/results/h200/launch/call_path.json). Median host time of a launch with
three pointers and a number: ctypes 4.17 us, cuda-bindings 4.04 us, cuda.core 4.02 us, PyCUDA 4.93 us. ctypes is within
4 % of the fastest and needs no package.
"""

from __future__ import annotations

import ctypes
import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from cudalab.base.errors import LaunchError
from cudalab.spec.card import Card

CAPTURE_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
MEMORY_TYPE = 2  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE
NOT_READY = 600  # CUDA_ERROR_NOT_READY
KERNEL_NODE, COPY_NODE = 0, 1  # CU_GRAPH_NODE_TYPE_KERNEL and _MEMCPY


@cache
def libcuda() -> ctypes.CDLL:
    """The driver's library. Raises OSError where there is none."""
    return ctypes.CDLL("libcuda.so.1")


@cache
def pycuda() -> Any:
    """PyCUDA's `driver` module, initialised."""
    import pycuda.driver

    pycuda.driver.init()
    return pycuda.driver


def ask(name: str, *arguments: Any) -> None:
    """Call the driver's function `name`; raises LaunchError if it refuses."""
    if code := getattr(libcuda(), name)(*arguments):
        raise refused(name, code)


def newest(name: str) -> Any:
    """The driver's function `name`, in its second version where this driver has one."""
    return getattr(libcuda(), f"{name}_v2", None) or getattr(libcuda(), name)


def refused(what: str, code: int) -> LaunchError:
    """The error to raise where the driver answered `what` with `code`."""
    said = error_name(code)
    hint = "; call it once before the capture, which compiles and loads it" if "CAPTURE" in said else ""
    return LaunchError(f"{what}: the driver said {said}{hint}")


def error_name(code: int) -> str:
    """The driver's name for an error, such as CUDA_ERROR_INVALID_VALUE."""
    name = ctypes.c_char_p()
    libcuda().cuGetErrorName(code, ctypes.byref(name))
    return name.value.decode() if name.value else str(code)


# ---- what is there -----------------------------------------------------------------------------------------------


def absent() -> bool:
    """Whether no driver is installed. Asking starts none."""
    try:
        libcuda()
    except OSError:
        return True
    return False


def missing() -> str | None:
    """Why the driver offers no GPU; None if it offers one."""
    if absent():
        return "no NVIDIA driver (libcuda.so.1 is not there)"
    driver = libcuda()
    count, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    if code := driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return f"the NVIDIA driver does not start (CUDA error {code}); does nvidia-smi work?"
    if not count.value:
        return "the NVIDIA driver sees no GPU; is one hidden by CUDA_VISIBLE_DEVICES?"
    driver.cuDeviceGetName(name, len(name), 0)
    if b"no GPU" in name.value:
        return f"libcuda is a stand-in: {name.value.decode()}"
    return None


def card_id(index: int) -> str:
    """Twelve hex digits that tell this card from others of its kind: the start of a SHA-256 of its UUID."""
    return hashlib.sha256(_uuid(index)).hexdigest()[:12]


def card_uuid(index: int) -> str:
    """The card's UUID as nvidia-smi writes it, such as GPU-8a56a4bc-e184-4b13-9d5f-6f8f4d3e7d2a."""
    return f"GPU-{uuid.UUID(bytes=_uuid(index))}"


def _uuid(index: int) -> bytes:
    device, found = ctypes.c_int(), ctypes.create_string_buffer(16)
    ask("cuDeviceGet", ctypes.byref(device), index)
    if code := newest("cuDeviceGetUuid")(found, device):
        raise refused("the card's UUID", code)
    return found.raw


def count() -> int:
    """How many GPUs the driver offers to this process; 0 where there is none. Opens no GPU."""
    found = ctypes.c_int()
    return 0 if missing() or libcuda().cuDeviceGetCount(ctypes.byref(found)) else found.value


def release() -> str:
    """The driver's release, such as 580.159.03, where the system tells."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return "unknown"


# ---- contexts and code -------------------------------------------------------------------------------------------


def current_context() -> int:
    """The address of the CUDA context that is current: what is loaded belongs to it alone."""
    context = ctypes.c_void_p()
    libcuda().cuCtxGetCurrent(ctypes.byref(context))
    return context.value or 0


@cache
def primary_context(index: int) -> int:
    """Return the context of GPU number `index` that torch, CuPy and the lab share."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    ask("cuInit", 0)
    ask("cuDeviceGet", ctypes.byref(device), index)
    ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    assert context.value
    return context.value


@contextmanager
def within(context: int) -> Iterator[None]:
    """Make this context current, and afterwards what was current before: threads of other libraries may have none."""
    ask("cuCtxPushCurrent_v2", ctypes.c_void_p(context))
    try:
        yield
    finally:
        ask("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@cache
def card(context: int) -> Card:
    """Return the GPU of a context."""
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    with within(context):
        ask("cuCtxGetDevice", ctypes.byref(device))
    for number, attribute in ((major, 75), (minor, 76)):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        ask("cuDeviceGetAttribute", ctypes.byref(number), attribute, device)
    ask("cuDeviceGetName", name, len(name), device)
    return Card(f"{major.value}.{minor.value}", name.value.decode())


@cache
def function(code: bytes, entry: str, context: int) -> int:
    """An entry of compiled code that is loaded into a context."""
    found, module = ctypes.c_void_p(), _module(code, context)
    with within(context):
        ask("cuModuleGetFunction", ctypes.byref(found), module, entry.encode())
    assert found.value
    return found.value


def global_of(code: bytes, context: int, name: str) -> tuple[int, int]:
    """Address and bytes of a variable of the code that `function` loads into a context. Raises LaunchError."""
    pointer, size, module = ctypes.c_uint64(), ctypes.c_size_t(), _module(code, context)
    with within(context):
        ask("cuModuleGetGlobal_v2", ctypes.byref(pointer), ctypes.byref(size), module, name.encode())
    return pointer.value, size.value


def write(pointer: int, data: bytes, context: int) -> None:
    """Copy bytes into device memory when all work of a context has ended, and wait for the copy."""
    with within(context):
        ask("cuCtxSynchronize")
        ask("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), data, ctypes.c_size_t(len(data)))
        ask("cuCtxSynchronize")  # a short copy returns before it has arrived, and other streams do not wait for it


def is_memory(address: int) -> bool:
    """Whether the driver knows memory at an address: a GPU's, or the host's that a GPU can reach."""
    kind = ctypes.c_uint()
    return not libcuda().cuPointerGetAttribute(ctypes.byref(kind), MEMORY_TYPE, ctypes.c_uint64(address))


def read(pointer: int, nbytes: int, context: int) -> bytes:
    """Copy device memory to the host when all work of a context has ended."""
    found = ctypes.create_string_buffer(max(nbytes, 1))
    with within(context):
        ask("cuCtxSynchronize")
        ask("cuMemcpyDtoH_v2", found, ctypes.c_uint64(pointer), ctypes.c_size_t(nbytes))
    return found.raw[:nbytes]


@cache
def _module(code: bytes, context: int) -> ctypes.c_void_p:
    """Code loaded into a context. It stays loaded: graphs that others captured may hold it."""
    module = ctypes.c_void_p()
    with within(context):
        ask("cuModuleLoadData", ctypes.byref(module), code)
    return module


# ---- events ------------------------------------------------------------------------------------------------------


class Event:
    """A point in a stream whose time the GPU records. The driver's functions are taken once, when the lab begins."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        ask("cuEventCreate", ctypes.byref(handle), 0)
        self.handle = handle
        self._record, self._elapsed = libcuda().cuEventRecord, newest("cuEventElapsedTime")
        self._wait, self._query = libcuda().cuEventSynchronize, libcuda().cuEventQuery

    def record(self, stream: ctypes.c_void_p) -> None:
        if code := self._record(self.handle, stream):
            raise refused("an event", code)

    def wait(self) -> None:
        """Wait until the work before this point is over."""
        if code := self._wait(self.handle):
            raise refused("a wait for an event", code)

    def over(self) -> bool:
        """Whether the work before this point is over."""
        if (code := self._query(self.handle)) not in (0, NOT_READY):
            raise refused("a look at an event", code)
        return not code

    def until(self, later: Event) -> float:
        """Seconds from this event to a later one; both are over."""
        milliseconds = ctypes.c_float()
        if code := self._elapsed(ctypes.byref(milliseconds), self.handle, later.handle):
            raise refused("the time between two events", code)
        return 1e-3 * milliseconds.value


# ---- graphs ------------------------------------------------------------------------------------------------------


def begin_capture(stream: int) -> None:
    """Record what this thread enqueues on a stream, in place of running it. Raises LaunchError, as all below."""
    _graph_call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), CAPTURE_THREAD_LOCAL)


def end_capture(stream: int) -> int:
    """The graph of what was enqueued since `begin_capture`."""
    graph = ctypes.c_void_p()
    _graph_call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
    return graph.value or 0


def kernels_in(graph: int) -> int:
    """How many kernels a graph launches; a copy by the driver counts as one."""
    count = ctypes.c_size_t()
    _graph_call("cuGraphGetNodes", ctypes.c_void_p(graph), None, ctypes.byref(count))
    if not count.value:
        return 0
    nodes, kind = (ctypes.c_void_p * count.value)(), ctypes.c_int()
    _graph_call("cuGraphGetNodes", ctypes.c_void_p(graph), nodes, ctypes.byref(count))
    found = 0
    for node in nodes:
        _graph_call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        found += kind.value in (KERNEL_NODE, COPY_NODE)
    return found


def function_of(enqueue: Callable[[Any], object]) -> int:
    """The function that `enqueue` launches on a PyCUDA stream, whose handle PyCUDA does not show.

    The launch is captured in a graph, where the handle stands, and not run.
    """
    stream, count, node = pycuda().Stream(1), ctypes.c_size_t(1), ctypes.c_void_p()
    begin_capture(stream.handle)
    try:
        enqueue(stream)
    finally:
        graph = end_capture(stream.handle)
    _graph_call("cuGraphGetNodes", ctypes.c_void_p(graph), ctypes.byref(node), ctypes.byref(count))
    parameters = (ctypes.c_void_p * 32)()  # CUDA_KERNEL_NODE_PARAMS of any version; the function is its first field
    if code := newest("cuGraphKernelNodeGetParams")(node, parameters):
        raise refused("a captured kernel", code)
    destroy_graph(graph)
    return parameters[0] or 0


def instantiate(graph: int) -> int:
    """Return an executable graph."""
    executable = ctypes.c_void_p()
    _graph_call("cuGraphInstantiateWithFlags", ctypes.byref(executable), ctypes.c_void_p(graph), ctypes.c_ulonglong(0))
    assert executable.value
    return executable.value


def replayer(executable: int, stream: int) -> Callable[[], None]:
    """What enqueues an executable graph on a stream."""
    launch = partial(libcuda().cuGraphLaunch, ctypes.c_void_p(executable), ctypes.c_void_p(stream))

    def replay() -> None:
        if code := launch():
            raise LaunchError(f"the driver said {error_name(code)}")

    return replay


def destroy_graph(graph: int, executable: int = 0) -> None:
    """Free a graph, and the executable one that was made of it."""
    if executable:
        libcuda().cuGraphExecDestroy(ctypes.c_void_p(executable))
    if graph:
        libcuda().cuGraphDestroy(ctypes.c_void_p(graph))


def _graph_call(name: str, *arguments: Any) -> None:
    if code := getattr(libcuda(), name)(*arguments):
        raise LaunchError(f"the driver said {error_name(code)}")
