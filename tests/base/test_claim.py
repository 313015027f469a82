"""One run at a time writes a file; what other users do holds up none."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, nullcontext

import pytest

from cudalab.base import cache
from cudalab.base.claim import claimed
from cudalab.base.errors import InputError


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """The folders of the locks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "TEMPORARY", tmp_path)
    return [tmp_path / "home" / "cudalab" / "claims", tmp_path / f"cudalab-{os.geteuid()}" / "claims"]


def locks(places):
    return [len(list(place.iterdir())) for place in places]


def is_held(path, said=r"^process \d+ is writing .*; wait until it ends, or give another file with -o$"):
    with pytest.raises(InputError, match=said), claimed(path):
        pass
    return True


def test_two_runs_do_not_write_one_file(tmp_path, places):
    path, link = tmp_path / "r.json", tmp_path / "link.json"
    link.symlink_to(path)
    for _ in range(2):  # a claim that ends is free again
        with claimed(path), claimed(tmp_path / "other.json"):
            assert is_held(link, f" is writing {path}; ") and locks(places) == [2, 2]
        assert locks(places) == [0, 0] and not path.exists()
    with pytest.raises(BlockingIOError), claimed(path):
        raise BlockingIOError  # of the run, not of the lock


@pytest.mark.parametrize("variable", ["CUDALAB_CACHE", "XDG_CACHE_HOME", "TMPDIR"])
def test_runs_with_different_caches_do_not_write_one_file(variable, tmp_path, monkeypatch):
    with cache.fresh(), claimed(tmp_path / "r"):
        monkeypatch.setenv(variable, str(tmp_path / "own"))
        assert is_held(tmp_path / "r")
        with cache.fresh():
            assert is_held(tmp_path / "r")


def test_a_full_disk_leaves_the_name_out_and_the_file_held(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with claimed(tmp_path / "r"):
        assert is_held(tmp_path / "r", "^another run is writing ")


def test_a_run_on_another_machine_is_named_with_it(tmp_path, monkeypatch):
    with ExitStack() as held:
        with monkeypatch.context() as other:
            other.setattr(socket, "gethostname", lambda: "node-7.lan")
            held.enter_context(claimed(tmp_path / "r"))
        assert is_held(tmp_path / "r", f"^process {os.getpid()} on node-7.lan is writing ")


def test_a_lock_that_its_holder_removes_meanwhile_is_taken_again(tmp_path, places, monkeypatch):
    real, left = os.fstat, [1]

    def removing(fd):
        if left:
            left.clear()
            next(places[0].iterdir()).unlink()
        return real(fd)

    monkeypatch.setattr(os, "fstat", removing)
    with claimed(tmp_path / "r"):
        assert locks(places) == [1, 1] and is_held(tmp_path / "r")


@pytest.mark.process
def test_a_claim_ends_with_its_process_however_that_ends(tmp_path, places):
    code = f"import os; from cudalab.base.claim import claimed\nwith claimed({str(tmp_path / 'r')!r}): os._exit(9)"
    code = (
        f"from pathlib import Path; from cudalab.base import cache; cache.TEMPORARY = Path({str(tmp_path)!r})\n{code}"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert locks(places) == [1, 1]
    with claimed(tmp_path / "r"):
        pass
    assert locks(places) == [0, 0]


@pytest.mark.parametrize("left", [0, 1])
def test_one_place_for_locks_is_enough_and_without_one_the_file_is_not_held(left, tmp_path, places):
    for place in places[left:]:
        place.parent.mkdir(parents=True)
        place.write_text("")
    with claimed(tmp_path / "r"), nullcontext() if left else claimed(tmp_path / "r"):
        assert not left or is_held(tmp_path / "r")
