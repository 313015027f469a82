"""Reading a `.cu`: once for each content, with a digest of its headers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tables import entries

from cudalab.base.errors import SpecError
from cudalab.spec import cuda_source


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that are read."""
    seen = []
    real = cuda_source._bytes

    def watched(path):
        seen.append(path.name)
        return real(path)

    monkeypatch.setattr(cuda_source, "_bytes", watched)
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
    cu.unlink()
    with pytest.raises(SpecError, match=r"cannot read .*a\.cu: No such file"):
        cuda_source.read(cu)


def test_a_file_that_was_written_just_now_is_read_each_time(tmp_path, reads):
    """Two changes of the same length within one tick of the clock leave the same time."""
    cu = tmp_path / "a.cu"
    for text in ("one", "two", "six", "ten"):
        written(cu, text)
        os.utime(cu, ns=(time.time_ns(), 10**18))
        assert cuda_source.read(cu) == text
    assert len(reads) == 4


def test_headers_that_change_appear_or_go_are_noticed(tmp_path, settled):
    cu = written(tmp_path / "a.cu", '#include <cuda_fp16.h>\n#include "in/b.cuh"\n#include <mine.cuh>\n')
    known, digests = [cuda_source.read(cu)], {cuda_source.digest(cu)}

    def differs():
        text = cuda_source.read(cu)
        assert text not in known and text == cuda_source.read(cu)
        assert cuda_source.digest(cu) not in digests
        known.append(text)
        digests.add(cuda_source.digest(cu))

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
    written(tmp_path / "mine.cuh", "beside the .cu, although it is named in angle brackets")
    differs()


# ---- encodings -------------------------------------------------------------------------------------------------------

CASES = Path(__file__).parents[1] / "data" / "host_part" / "cases.txt"
PLAIN = "// r\u00e9sum\u00e9\n__global__ void f(int* x) {}\n"


@pytest.mark.parametrize(("mark", "line_end"), [(b"\xef\xbb\xbf", "\n"), (b"", "\r\n"), (b"\xef\xbb\xbf", "\r")])
def test_what_editors_add_to_a_text_is_taken_away(tmp_path, mark, line_end):
    (tmp_path / "f.cu").write_bytes(mark + PLAIN.replace("\n", line_end).encode())
    assert cuda_source.read(tmp_path / "f.cu") == PLAIN


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (PLAIN.encode("latin-1"), r"f.cu:1: the byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (PLAIN.encode("utf-16"), r"f.cu is UTF-16, which no CUDA compiler reads; save it as UTF-8"),
        (PLAIN.encode() + b"\0", r"f.cu:3: a zero byte; is this a text file\?"),
    ],
    ids=["Latin-1", "UTF-16", "zero byte"],
)
def test_another_encoding_is_refused_by_its_name_or_line(tmp_path, data, says):
    (tmp_path / "f.cu").write_bytes(data)
    with pytest.raises(SpecError, match=says):
        cuda_source.read(tmp_path / "f.cu")


def test_host_code_is_left_out_and_every_other_line_keeps_its_place(tmp_path):
    def lines(text):
        return [line.strip() for line in text.split("\n")]

    cu = written(tmp_path / "ext.cu", CASES.with_name("extension.cu").read_text())
    assert lines(cuda_source.read(cu)) == lines(CASES.with_name("extension.left").read_text())
    said = "host code at lines 1 to 2, 16 to 17, 20, 22, 26 to 33 is left out: the lab launches"
    assert cuda_source.left_out(cu) == said


@pytest.mark.parametrize(("what", "text"), entries(r"^== (kept|left out).*\n((?:(?!== ).*\n)+)", CASES.read_text()))
def test_host_code_is_told_by_its_kinds_and_other_text_is_as_its_author_wrote_it(tmp_path, what, text):
    device = "__global__ void k(float* y) { y[0] = 1; }\n" if what == "left out" else ""
    cu = written(tmp_path / "k.cu", device + text)
    found = cuda_source.read(cu)
    assert found.strip() == device.strip() if device else found == text
    assert bool(cuda_source.left_out(cu)) == (what == "left out")


def test_host_code_that_cannot_be_told_apart_is_refused_with_what_to_do(tmp_path):
    cu = written(tmp_path / "k.cu", "__global__ void k(float* y) {}\nvoid f() {\n  k<<<1, 1>>>(0);\n")
    with pytest.raises(SpecError, match=r"k.cu:2: this '\{' is not closed.*put #ifndef CUDALAB before it"):
        cuda_source.read(cu)


@pytest.mark.parametrize("name", ["k.cu", "k.cuh"])
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "is not a regular file; put the source itself there"),
        (lambda path: os.symlink("/dev/zero", path), "is not a regular file; put the source itself there"),
        (lambda path: path.touch() or os.truncate(path, 60 << 30), "has 64,424,509,440 bytes; a source file may have"),
    ],
)
def test_a_source_without_an_end_is_refused(tmp_path, name, make, says):
    (tmp_path / "k.cu").write_text('#include "k.cuh"\n')
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    for reads in (cuda_source.read, cuda_source.digest):
        with pytest.raises(SpecError, match=f"{name} {says}"):
            reads(tmp_path / "k.cu")
