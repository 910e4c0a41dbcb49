# SPDX-License-Identifier: Apache-2.0
"""Files that processes have mapped, by the text of their mappings and by the files themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from stoker.native.errors import NotFound, NotSupported
from stoker.probes.calls.library_copies import (
    COPIES_MAX,
    Copy,
    copies_of,
    libraries_in,
    opened,
    start_time,
)
from tests.probes.gpu_jobs import Caller, compile_caller, compile_library
from tests.probes.groups import require_root

LINE = "7f00{n:04x}0000-7f00{n:04x}5000 {perms} 00001000 {dev} {inode}    {path}\n"


def line(path: str, n: int = 1, perms: str = "r-xp", dev: str = "fe:01", inode: int = 7) -> str:
    return LINE.format(n=n, perms=perms, dev=dev, inode=inode, path=path)


def test_libraries_are_told_by_name_and_files_by_inode() -> None:
    maps = (
        line("/usr/bin/python3", 1, inode=3)
        + line("/usr/lib/libcuda.so.580.65.06", 2, perms="r--p", inode=9)
        + line("/usr/lib/libcuda.so.580.65.06", 3, inode=9)
        + line("/usr/lib/libcuda.so.580.65.06", 4, inode=9)
        + line("/a b/libnccl.so.2 (deleted)", 5, inode=11)
        + line("/usr/lib/libcudart.so.13", 6, inode=12)
        + line("/usr/lib/libcuda.so.1", 7, dev="00:2f", inode=9)
        + "7f0000080000-7f0000081000 r-xp 00000000 00:00 0 \n"
        + "7f0000090000-7f0000091000 r-xp 00000000 00:00 0                          [vdso]\n"
    )
    assert libraries_in(maps, ["libcuda.so", "libnccl.so"]) == [
        Copy("/usr/lib/libcuda.so.580.65.06", "fe:01", 9, "7f0000030000-7f0000035000", False),
        Copy("/a b/libnccl.so.2", "fe:01", 11, "7f0000050000-7f0000055000", True),
        Copy("/usr/lib/libcuda.so.1", "00:2f", 9, "7f0000070000-7f0000075000", False),
    ]


def test_lines_that_are_none_and_too_many_copies_are_left_out() -> None:
    assert libraries_in("", ["lib"]) == []
    assert libraries_in("libcuda.so\n\n- - - - - -\na b c d e libcuda.so\n", ["libcuda.so"]) == []
    many = "".join(line(f"/l/libcuda.so.{i}", i, inode=i + 1) for i in range(COPIES_MAX + 5))
    assert len(libraries_in(many, ["libcuda.so"])) == COPIES_MAX


def test_a_process_that_is_gone_is_not_found() -> None:
    with pytest.raises(NotFound, match="is gone"):
        copies_of(2**22 + 1, ["lib"])
    assert start_time(2**22 + 1) is None
    assert start_time(os.getpid()) is not None


def test_the_mapped_file_is_opened_even_when_its_name_is_gone(tmp_path: Path) -> None:
    require_root()
    library = compile_library(tmp_path / "libcuda.so.1")
    inode = library.stat().st_ino
    caller = Caller(compile_caller(tmp_path / "caller"))
    try:
        caller.tell("open", library)
        library.unlink()
        library.write_text("something else")
        (copy,) = copies_of(caller.pid, ["libcuda.so"])
        assert (copy.deleted, copy.inode, copy.path) == (True, inode, str(library))
        with opened(caller.pid, copy) as file:
            assert os.fstat(file.fd).st_ino == inode
            assert Path(file.path).read_bytes()[:4] == b"\x7fELF"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file.fd)
        # Without the mapping, the name leads to a file that is not the one that was mapped.
        with pytest.raises(NotFound), opened(caller.pid, replace(copy, area="1-2")):
            pass
    finally:
        caller.end()


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "libcuda.so.1"
    os.mkfifo(pipe)  # opening it would wait for a writer
    copy = Copy(str(pipe), "fe:01", pipe.stat().st_ino, "1-2", False)
    with pytest.raises(NotSupported, match="no regular file"), opened(os.getpid(), copy):
        pass
