"""Reading a `.cu`: once for each content, with a digest of its headers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cudalab.base.errors import SpecError
from cudalab.spec import cuda_source


@pytest.fixture
def reads(monkeypatch):
    """The names of the files whose text is read."""
    seen = []
    real = Path.read_text

    def watched(path, *args, **options):
        seen.append(path.name)
        return real(path, *args, **options)

    monkeypatch.setattr(Path, "read_text", watched)
    return seen


def written(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def settled(monkeypatch):
    """All files count as written long ago, as far as the clock can tell."""
    monkeypatch.setattr(cuda_source, "SETTLED", -1e18)


def test_a_file_is_read_once(tmp_path, reads, settled):
    cu = written(tmp_path / "a.cu", "one")
    assert [cuda_source.read(cu) for _ in range(3)] == ["one"] * 3
    assert reads == ["a.cu"]
    written(cu, "three")
    assert [cuda_source.read(cu) for _ in range(3)] == ["three"] * 3
    assert reads == ["a.cu"] * 2


def test_a_file_that_was_written_just_now_is_read_each_time(tmp_path, reads):
    """Two changes of the same length within one tick of the clock leave the same time."""
    cu = tmp_path / "a.cu"
    for text in ("one", "two", "six", "ten"):
        written(cu, text)
        os.utime(cu, ns=(time.time_ns(), 10**18))
        assert cuda_source.read(cu) == text
    assert len(reads) == 4


def test_headers_that_change_appear_or_go_are_noticed(tmp_path, settled):
    cu = written(tmp_path / "a.cu", '#include "in/b.cuh"\n')
    known = [cuda_source.read(cu)]

    def differs():
        text = cuda_source.read(cu)
        assert text not in known
        assert text == cuda_source.read(cu)
        known.append(text)

    written(tmp_path / "in" / "b.cuh", '#include "c.cuh"\n')
    differs()
    written(tmp_path / "c.cuh", "outer")
    differs()
    written(tmp_path / "in" / "c.cuh", "inner")  # stands beside what includes it
    differs()
    written(tmp_path / "in" / "c.cuh", "changed")
    differs()
    (tmp_path / "in" / "c.cuh").unlink()
    assert cuda_source.read(cu) == known[2]


def test_a_file_that_has_gone_is_an_error(tmp_path, settled):
    cu = written(tmp_path / "a.cu", "one")
    cuda_source.read(cu)
    cu.unlink()
    with pytest.raises(SpecError, match=r"cannot read .*a\.cu: No such file"):
        cuda_source.read(cu)
