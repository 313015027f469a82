"""The actors of a run as actors of Ray: on the GPUs of this host, or on those of a cluster that runs already."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from cudalab.base import advice, scratch
from cudalab.base.errors import InputError, Unavailable, message_of, why
from cudalab.base.text import encodable
from cudalab.device import driver
from cudalab.tools.gpus.chosen import NOT_SET, Chosen
from cudalab.tools.gpus.messages import Gone, Report

STORE = 100 << 20  # bytes of shared memory for Ray's objects, of which a run has few
VISIBLE = "CUDA_VISIBLE_DEVICES"
# Ray sends no statistics of its use, does not copy the current folder where `uv run` starts the lab, and does not print
# what rows say of a lost actor. Its workers have the priority of other programs, as the lab's own, and are not killed
# where memory gets short: the system does that.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^A worker died or was killed|has been marked dead",
    "RAY_worker_niceness": "0",
    "RAY_memory_monitor_refresh_ms": "0",
}
SOCKETS = 72  # characters that Ray adds to the name of its folder for those of its sockets
NAME = 107  # of a socket, at most
ANSWER = 10.0  # seconds in which a cluster answers
FAREWELL = 10.0  # seconds that actors have to end their workers
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LONGEST = 300  # characters of what Ray says of a lost actor
TRIED = "on two actors of this CPU the same path runs with --device cpu --gpus 0,1"


def joined(chosen: Chosen, address: str, device: str) -> RayFleet:
    """Start Ray on this host, or join a cluster; Raises Unavailable without Ray or GPUs, InputError for bad numbers."""
    before = dict(os.environ)
    settings = {name: value for name, value in SETTINGS.items() if name not in before}
    with _environment(settings), ExitStack() as stack:
        ray = _ray()
        if not ray.is_initialized():
            stack.callback(_forget, before)
        if address:
            _join(ray, address)
            stack.callback(ray.shutdown)
        found = (_in_cluster if ray.is_initialized() else _of_this_host)(ray, chosen, device, stack)
        if not address:  # other hosts have paths of their own
            found.path = [os.path.abspath(part) for part in sys.path]
        return found


def _ray() -> ModuleType:
    try:
        import ray
    except ImportError:
        raise Unavailable(
            f"--gpus needs Ray, which is not installed; {advice.extra('ray')}; without Ray, --gpus none takes one GPU, "
            "also where --resume continues a run of several"
        ) from None
    return ray


def _forget(before: Mapping[str, str]) -> None:
    """Undo what Ray itself sets in the environment and leaves there when it ends."""
    mine = {name for name in os.environ.keys() | before.keys() if name.startswith("RAY_")} | {"PYTHONBREAKPOINT"}
    _set({name: before.get(name) for name in mine})


def _join(ray: ModuleType, address: str) -> None:
    if ray.is_initialized():
        raise InputError("this process is in a Ray cluster already; leave out the address")
    _reach(address)
    try:
        ray.init(address, **_silent())
    except Exception as error:  # of many kinds: no such address, another version, no permission
        said = " ".join(message_of(error).split())[:LONGEST]
        raise Unavailable(
            f"cannot join the Ray cluster {address}: {said}; `ray status` there says whether it runs; give HOST:6379, "
            "or auto on one of its hosts; if it asks for a token, set RAY_AUTH_MODE=token"
        ) from None


def _reach(address: str) -> None:
    """Raise Unavailable where nothing answers at HOST:PORT: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isascii() and port.isdigit()):
        return  # such as auto
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
    except (OSError, OverflowError) as error:
        said = why(error) if isinstance(error, OSError) else str(error)
        raise Unavailable(
            f"no Ray cluster answers at {address}: {said}; begin one with `ray start --head --port 6379`, and give "
            "its HOST:6379"
        ) from None


def _in_cluster(ray: ModuleType, chosen: Chosen, device: str, stack: ExitStack) -> RayFleet:
    """On all GPUs of a cluster; on CPUs, as many actors as there are numbers."""
    if device == "cpu":
        return RayFleet(ray, len(_numbers(chosen)), device, _on_cpu(chosen, "--device cpu"), 0, stack)
    if chosen.numbers:
        raise InputError(
            f"--gpus {chosen.text}: a cluster's GPUs have no numbers; give all, a card such as H200, or a host"
        )
    if not (count := int(ray.cluster_resources().get("GPU", 0))):
        raise Unavailable(f"the Ray cluster has no GPU; {TRIED}")
    return RayFleet(ray, count, "cuda", "", 1, stack)


def _of_this_host(ray: ModuleType, chosen: Chosen, device: str, stack: ExitStack) -> RayFleet:
    """On GPUs of this host; on its CPU where there is none, as many actors as there are numbers."""
    found = 0 if device == "cpu" else driver.count()
    if not found:
        why = "--device cpu" if device == "cpu" else driver.missing() or ""
        if device == "cuda":
            raise Unavailable(f"no GPU to use: {why}; {TRIED}")
        numbers = _numbers(chosen, why)
        _begin(ray, len(numbers), 0, stack)
        return RayFleet(ray, len(numbers), device, _on_cpu(chosen, why), 0, stack)
    if wrong := [number for number in chosen.numbers if number >= found]:
        have = ",".join(map(str, range(found)))
        raise InputError(f"--gpus {chosen.text}: no GPU number {wrong[0]}; this host has {found}: --gpus {have}")
    numbers = chosen.numbers or tuple(range(found))
    with _environment({VISIBLE: _visible(numbers), NOT_SET: None}):
        _begin(ray, len(numbers), len(numbers), stack)
    return RayFleet(ray, len(numbers), "cuda", "", 1, stack)


def _numbers(chosen: Chosen, why: str = "") -> tuple[int, ...]:
    if not chosen.numbers:
        said = f"{why}; " if why else ""
        raise Unavailable(f"--gpus {chosen.text} names no GPU here: {said}{TRIED}")
    return chosen.numbers


def _on_cpu(chosen: Chosen, why: str) -> str:
    count = len(chosen.numbers)
    actors = "1 actor runs" if count == 1 else f"{count} actors run"
    return f"no GPU is used ({why}): {actors} on CPUs, and on one host they disturb each other's times"


def _visible(numbers: tuple[int, ...]) -> str:
    """What lets Ray see these GPUs alone; numbers count those that this process may see."""
    before = os.environ.get(VISIBLE)
    names = before.split(",") if before is not None else None
    return ",".join(names[number] if names else str(number) for number in numbers)


@contextlib.contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set these variables inside; None: unset. A program that uses the lab finds its own again."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def _begin(ray: ModuleType, cpus: int, gpus: int, stack: ExitStack) -> None:
    _start(ray, cpus, gpus, stack.enter_context(scratch.held()) / "ray")
    stack.callback(ray.shutdown)


def _start(ray: ModuleType, cpus: int, gpus: int, folder: Path) -> None:
    """Start Ray on this host alone; its files go to the folder where the names of its sockets leave room for that."""
    place = {"_temp_dir": str(folder)} if len(str(folder)) + SOCKETS <= NAME else {}
    try:
        ray.init(
            "local",
            num_cpus=cpus,
            num_gpus=gpus,
            include_dashboard=False,
            object_store_memory=STORE,
            **_silent(),
            **place,
        )
    except Exception as error:  # of many kinds: no memory, no room for its files, a port that is taken
        said = " ".join(message_of(error).split())[:LONGEST]
        raise Unavailable(f"Ray does not start on this host: {said}; without --gpus the lab needs no Ray") from None


def _silent() -> Mapping[str, Any]:
    """Ray prints nothing: rows and warnings say what a user needs."""
    return {"log_to_driver": False, "logging_level": logging.CRITICAL}


def _actor_class() -> type:
    """The class that Ray makes an actor of. It is sent as it is, and imports the lab once `sys.path` is right."""

    class OnGpu:
        def __init__(self, order: bytes, path: list[str]) -> None:
            import os
            import sys

            import ray

            if given := ray.get_runtime_context().get_accelerator_ids().get("GPU"):
                os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(given)  # Ray itself may be told not to set it
            if path:  # what Ray adds, such as the current folder, hides no module
                sys.path[:] = path
            from cudalab.tools.gpus.actor import Actor

            self.actor = Actor(order)

        def open(self) -> bytes:
            return self.actor.open()

        def rows(self, work: bytes) -> bytes:
            return self.actor.rows(work)

        def close(self) -> None:
            self.actor.close()

    return OnGpu


class RayFleet:
    """A `Fleet` of actors in the cluster that this process has joined. `end` does what `stack` has to do."""

    path: Sequence[str] = ()  # `sys.path` of actors; (): as Ray has it

    def __init__(self, ray: ModuleType, count: int, device: str, note: str, gpus: int, stack: ExitStack) -> None:
        self.count, self.device, self.note = count, device, note
        self._ray, self._stack = ray, stack.pop_all()
        spread = "DEFAULT" if gpus else "SPREAD"
        self._made = ray.remote(_actor_class()).options(  # a GPU whose host has no free processor is not waited for
            num_gpus=gpus, num_cpus=0 if gpus else 1, max_restarts=0, max_task_retries=0, scheduling_strategy=spread
        )
        self._actors: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}  # what actors are doing, by reference: the actor's number

    def hire(self, number: int, order: bytes) -> None:
        """Implements `Fleet.hire`."""
        self.dismiss(number)
        actor = self._actors[number] = self._made.remote(order, list(self.path))
        self._asked[actor.open.remote()] = number

    def give(self, number: int, work: bytes) -> None:
        """Implements `Fleet.give`."""
        self._asked[self._actors[number].rows.remote(work)] = number

    def dismiss(self, number: int) -> None:
        """Implements `Fleet.dismiss`."""
        self._asked = {asked: other for asked, other in self._asked.items() if other != number}
        if actor := self._actors.pop(number, None):
            self._ray.kill(actor)

    def reports(self, seconds: float) -> list[tuple[int, Report]]:
        """Implements `Fleet.reports`."""
        if not self._asked:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._asked), timeout=seconds)
        return [(self._asked.pop(one), self._report(one)) for one in ready]

    def _report(self, asked: Any) -> Report:
        try:
            return msgspec.json.decode(self._ray.get(asked), type=Report)
        except self._ray.exceptions.RayError as error:
            return Gone(_said(error))

    def end(self) -> None:
        """Implements `Fleet.end`."""
        idle = [actor for number, actor in self._actors.items() if number not in self._asked.values()]
        with self._stack:
            with contextlib.suppress(self._ray.exceptions.RayError):
                if ending := [actor.close.remote() for actor in idle]:
                    self._ray.wait(ending, num_returns=len(ending), timeout=FAREWELL)
            for number in list(self._actors):
                self.dismiss(number)


def _said(error: Exception) -> str:
    """What Ray says of a lost actor, in a sentence; of one that could not be made, the last line of its error."""
    lines = [line.strip() for line in COLOUR.sub("", str(error)).splitlines() if line.strip()]
    if "creation task" in lines[0]:
        return encodable(f"its actor could not be made: {lines[-1]}"[:LONGEST])
    text = " ".join(" ".join(lines).split())
    cause = text.partition("The actor is dead because ")[2] or text
    said = re.sub(r"Worker exit type: \w+ Worker exit detail: ", "", cause.partition(" Some common causes include")[0])
    return encodable(said if len(said) <= LONGEST else f"{said[: LONGEST - 4]} ...")
