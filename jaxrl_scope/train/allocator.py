"""On a CPU: keep freed memory in the process, where XLA takes it again in the next call."""

import ctypes
import os
import platform

# Parameters of glibc's mallopt(3), from malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_PAD_BYTES = 256 * 2**20
_INT_MAX = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell the C library to give no freed memory back to the system.

    XLA for CPU allocates the temporaries of every call anew. By default large blocks are mapped and
    unmapped each time, and the system clears every page of them: a quarter of the time of a small
    train step. The process then stays at its peak, which grows by what fragments (docs/profile.md
    has the figures).

    Does nothing where the user has set a MALLOC_ variable, or where there is no glibc.

    Returns:
      Whether it took effect.
    """
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    libc = ctypes.CDLL(None)
    settings = {
        _MMAP_MAX: 0,  # large blocks come from the heap too
        _TRIM_THRESHOLD: _INT_MAX,
        _TOP_PAD: _PAD_BYTES,
        _ARENA_MAX: 1,  # what one thread frees another can take
    }
    return all([libc.mallopt(name, value) for name, value in settings.items()])
