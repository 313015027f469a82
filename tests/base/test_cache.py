"""The cache: its folders are the user's alone, and damaged entries are made again."""

from __future__ import annotations

import errno
import os
import stat
from ast import literal_eval
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tables import table

from cudalab import host
from cudalab.base import cache, scratch
from cudalab.base.errors import Broken, Unavailable
from cudalab.engine.round import Round
from cudalab.results.record import Case

TEXT = "__global__ void set(int* x) { *x = 41; }"


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# ---- whose it is -----------------------------------------------------------------------------------------------------


def test_it_is_the_user_s_alone_whatever_the_umask(base, monkeypatch):
    monkeypatch.setenv("CUDALAB_CACHE", str(base / "deep" / "cache"))
    before = os.umask(0)
    try:
        made = cache.folder("host")
        cache.put(made / "entry", b"code")
    finally:
        os.umask(before)
    assert [mode(f) for f in (base, base / "deep", made.parent, made, made / "entry")] == [0o700] * 4 + [0o600]


def is_refused(says):
    with pytest.raises(Unavailable, match=says):
        cache.folder("host")


@pytest.mark.parametrize("where", [".", "host"])
@pytest.mark.parametrize("open_to", [0o777, 0o770, 0o707])
def test_a_folder_that_others_can_write_is_refused(base, where, open_to):
    cache.folder("host")
    (base / where).chmod(open_to)
    is_refused(rf"not run code from .*other users can write to it \(mode 0{open_to:o}\); remove it .*CUDALAB_CACHE")


def test_in_a_folder_like_tmp_it_has_private_folders(base):
    base.mkdir()
    base.chmod(0o1777)
    made = cache.folder("host")
    assert mode(made) == 0o700
    made.chmod(0o1777)
    is_refused("other users can write")


@pytest.mark.parametrize("depth", ["cache", "deep/er/cache"])
@pytest.mark.parametrize("by", ["open", "link"])
def test_below_a_folder_that_all_can_write_it_is_refused_unless_that_is_sticky(tmp_path, monkeypatch, depth, by):
    """Others may rename the folder of this user there, and put their own in its place."""
    place = tmp_path / "open"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    monkeypatch.setenv("CUDALAB_CACHE", str(tmp_path / by / depth))
    place.chmod(0o777)
    is_refused(r"other users can replace it, since .* is open to all \(mode 0777\); type chmod \+t .*, or set")
    assert not any(place.iterdir())
    place.chmod(0o1777)
    assert cache.folder("host") == tmp_path / by / depth / "host"
    place.chmod(0o777)
    is_refused("set CUDALAB_CACHE to a folder of yours elsewhere")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
@pytest.mark.parametrize(("where", "mode", "says"), table("cache", "owners", str, literal_eval, str))
def test_a_folder_of_another_user_is_refused(base, where, mode, says):
    cache.folder("host")
    (base / where).chmod(mode)
    os.chown(base / where, 1234, 1234)
    is_refused(says)


def test_the_user_s_own_default_folder_is_closed(tmp_path, monkeypatch):
    """An earlier version left it as the umask said."""
    monkeypatch.delenv("CUDALAB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "cudalab" / "host").mkdir(parents=True)
    for folder in (tmp_path / "cudalab", tmp_path / "cudalab" / "host"):
        folder.chmod(0o775)
    made = cache.folder("host")
    assert (made, mode(made), mode(made.parent)) == (tmp_path / "cudalab" / "host", 0o755, 0o755)


def test_libraries_keep_their_code_there_unless_the_user_names_a_folder(base, monkeypatch):
    for name in cache.LIBRARIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/mine")
    assert cache.of_libraries() == {
        "TRITON_CACHE_DIR": str(base / "triton"), "PYCUDA_CACHE_DIR": str(base / "pycuda")
    }  # fmt: skip
    assert cache.use_for("TORCHINDUCTOR_CACHE_DIR") == Path("/mine")


def test_without_a_cache_their_code_goes_to_the_scratch_folder(base, monkeypatch):
    base.write_text("")
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    with scratch.held() as place:
        assert cache.of_libraries()["TRITON_CACHE_DIR"] == str(place / "triton")


# ---- what is in it ---------------------------------------------------------------------------------------------------

DAMAGE = {
    "empty": lambda data: b"",
    "garbage": lambda data: b"garbage",
    "cut": lambda data: data[: len(data) // 2],
    "cut-at-the-end": lambda data: data[:-1],
    "changed": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
    "without-seal": lambda data: data[: -len(cache.SEAL) - cache.DIGEST],
}


@pytest.mark.parametrize(
    ("number", "kind", "status"), [(errno.ENOSPC, Broken, "error"), (errno.EROFS, Unavailable, "skipped")]
)
def test_a_disk_that_fills_is_broken_and_not_a_reason_to_skip(base, monkeypatch, number, kind, status):
    """It had room for the sizes before."""

    def full(*_, **__):
        raise OSError(number, os.strerror(number))

    def put():
        cache.put(cache.folder("host") / "a.so", b"code")

    monkeypatch.setattr(cache.files, "write", full)
    with pytest.raises(Unavailable, match=r"cannot write to the cache .*; set CUDALAB_CACHE") as caught:
        put()
    assert type(caught.value) is kind
    case = Case("k", "small", (4,), "float32", "host", "k")
    Round(SimpleNamespace(survived=lambda *_: None), None).guarded(case, put)
    assert case.status == status


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_not_there(base, damage):
    entry = cache.folder("host") / "entry"
    cache.put(entry, bytes(range(256)) * 10)
    assert cache.get(entry) == bytes(range(256)) * 10
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.get(entry) is None


def test_an_entry_that_others_can_write_is_not_there(base):
    entry = cache.folder("host") / "entry"
    cache.put(entry, b"code")
    entry.chmod(0o666)
    assert cache.get(entry) is None
    entry.unlink()
    entry.symlink_to("/etc/passwd")
    assert cache.get(entry) is cache.get(base / "host") is None


@pytest.mark.parametrize("there", [True, False])
def test_an_entry_that_is_a_link_is_replaced_and_not_the_file_behind_it(base, tmp_path, there):
    entry, behind = cache.folder("host") / "entry", tmp_path / "behind"
    if there:
        behind.write_text("mine")
    entry.symlink_to(behind)
    cache.put(entry, b"code")
    assert cache.get(entry) == b"code" and not entry.is_symlink()
    assert behind.read_text() == "mine" if there else not behind.exists()


@pytest.mark.sweep
@pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")
def test_a_damaged_module_is_compiled_again(base):
    library = host.build(TEXT)
    whole = library.read_bytes()
    for damage in (DAMAGE["empty"], DAMAGE["cut"]):
        library.unlink()  # else this process, which has loaded it, would change with the file
        library.write_bytes(damage(whole))
        x = np.zeros(1, np.int32)
        host.load(TEXT).launch("set", (1, 1, 1), (1, 1, 1), [x])
        assert x[0] == 41
        assert cache.get(library)
    assert [path.name for path in library.parent.iterdir() if path.suffix not in (".o", ".flag")] == [library.name]


def test_damaged_files_of_libraries_are_removed(base):
    place = cache.folder("torch")
    whole = host.build(TEXT).read_bytes()
    files = {
        "whole.so": whole, "cut.so": whole[: len(whole) // 2], "empty.so": b"", "rubbish.so": b"rubbish" * 100,
        "whole.json": b"{}", "cut.json": b'{"a', "other.cpp": b"",
        f".{os.getpid()}.1.tmp": b"", f".{2**22 + 1}.1.tmp": b"",
    }  # fmt: skip
    (place / "ab").mkdir()
    for name, data in files.items():
        (place / "ab" / name).write_bytes(data)
    with open(place / "ab" / "linked.so", "wb"):  # a linker is writing it
        cache.mend(place)
    assert {path.name for path in (place / "ab").iterdir()} == {
        "whole.so", "whole.json", "other.cpp", f".{os.getpid()}.1.tmp", "linked.so"
    }  # fmt: skip
