"""One run at a time writes a file; what other users do holds up none."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from hashlib import sha256

import pytest

from cudalab.base import cache
from cudalab.base.claim import claimed
from cudalab.base.errors import InputError, Unavailable


@pytest.fixture
def claims(tmp_path, monkeypatch):
    """The folder of the locks."""
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "claims"


def test_two_runs_do_not_write_one_file(tmp_path, claims):
    path, link = tmp_path / "r.json", tmp_path / "link.json"
    link.symlink_to(path)
    said = f"^process {os.getpid()} is writing {path}; wait until it ends, or give another file with -o$"
    for _ in range(2):  # a claim that ends is free again
        with claimed(path), claimed(tmp_path / "other.json"):
            with pytest.raises(InputError, match=said), claimed(link):
                pass
            assert len(list(claims.iterdir())) == 2
        assert list(claims.iterdir()) == [] and not path.exists()
    with pytest.raises(BlockingIOError), claimed(path):
        raise BlockingIOError  # of the run, not of the lock


@pytest.mark.process
def test_a_claim_ends_with_its_process_however_that_ends(tmp_path, claims):
    code = f"import os; from cudalab.base.claim import claimed\nwith claimed({str(tmp_path / 'r')!r}): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert len(list(claims.iterdir())) == 1
    with claimed(tmp_path / "r"):
        pass
    assert list(claims.iterdir()) == []


def test_a_name_that_every_user_can_take_holds_up_no_run(tmp_path, claims):
    name = sha256(f"{os.geteuid()} {tmp_path / 'r'}".encode()).hexdigest()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"\0cudalab-{name}".encode())
        with claimed(tmp_path / "r"):
            pass


def test_without_a_cache_the_file_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDALAB_CACHE", __file__)
    with pytest.raises(Unavailable):
        cache.folder("claims")
    with claimed(tmp_path / "r"), claimed(tmp_path / "r"):
        pass
