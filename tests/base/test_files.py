"""Files are written whole or not at all, with the modes that the user chose, by one run at a time."""

from __future__ import annotations

import os
import resource
import stat

import pytest

from cudalab.base import files
from cudalab.base.errors import InputError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_respects_the_umask_and_an_old_one_keeps_its_mode(tmp_path, umask, expected):
    path, before = tmp_path / "r.json", os.umask(umask)
    try:
        files.write(path, b"1")
        assert mode(path) == expected
        path.chmod(0o640)
        files.write(path, b"2")
    finally:
        os.umask(before)
    assert (mode(path), path.read_bytes()) == (0o640, b"2")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_another_user_keeps_its_owner(tmp_path):
    path = tmp_path / "r.json"
    path.write_text("1")
    os.chown(path, 1234, 1235)
    files.write(path, b"2")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


def test_the_file_behind_a_link_is_replaced(tmp_path):
    link, path = tmp_path / "link.json", tmp_path / "r.json"
    link.symlink_to(path)
    files.write(link, b"1")
    assert link.is_symlink() and path.read_bytes() == b"1"


def test_no_run_begins_where_no_file_fits(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(InputError, match=r"cannot write .*r.json: File too large; choose another place"):
            files.place(tmp_path / "r.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
