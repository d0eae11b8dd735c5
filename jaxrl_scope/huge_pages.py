"""Huge pages behind the large blocks that the C library allocates."""

import os
import platform
import sys
from pathlib import Path

_TUNABLES = "GLIBC_TUNABLES"
_ADVISE = "glibc.malloc.hugetlb=1"  # madvise(2) for blocks that hold a huge page
_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def restart_with_huge_pages() -> None:
    """Start this program again, as the same process, with huge pages behind its large blocks.

    XLA for CPU allocates the temporaries of every call anew, and the system clears them page by
    page: a quarter of the time of a small train step with pages of 4 KiB (docs/profile.md has the
    figures). glibc asks for large ones only if its environment says so when a process starts, so
    that the program is executed once more, which should come before anything slow is imported. Its
    children are not affected.

    Returns where there is nothing to do or to gain: in the restarted program; where the system
    gives huge pages unasked, or never; without glibc 2.35; where the user has set GLIBC_TUNABLES or
    a MALLOC_ variable.
    """
    if os.environ.get(_TUNABLES) == _ADVISE:
        del os.environ[_TUNABLES]
        return
    if _TUNABLES in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    if _has_tunable() and _on_request():
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, os.environ | {_TUNABLES: _ADVISE})


def _has_tunable() -> bool:
    name, version = platform.libc_ver()
    return name == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35)


def _on_request() -> bool:
    try:
        return "[madvise]" in _MODE.read_text()
    except OSError:
        return False
