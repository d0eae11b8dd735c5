"""A system call filter for runs: no way around the limits through the kernel's less used doors.

Memory that no resource limit counts (System V objects, anonymous files, mounts of a nested user
namespace) and debugging interfaces are refused with EPERM; clone3, whose flags a filter cannot see,
with ENOSYS, on which the C library falls back to clone.
"""

import ctypes
import errno
import os
import struct

_REFUSED = {  # x86_64, aarch64
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "memfd_create": (319, 279),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
}
_CLONE = (56, 220)
_CLONE3 = 435
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW*
_X32 = 0x40000000

_LOAD, _IF_EQUAL, _IF_SET, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
_PR_SET_SECCOMP, _FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def restrict() -> None:
    """Put the filter on this process and its children for good; needs no_new_privs.

    Raises:
      OSError: the kernel has no seccomp filters, or the machine's system calls are not known.
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(f"system calls of {machine} are not known here")
    code = _assemble(*_ARCHITECTURES[machine])
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _assemble(column: int, architecture: int) -> bytes:
    """The filter as BPF: (code, jump if true, jump if false, operand) of 8 bytes each."""
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    lines = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
        (_IF_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for numbers in _REFUSED.values():
        lines += [(_IF_EQUAL, 0, 1, numbers[column]), refuse]
    lines += [
        (_IF_EQUAL, 0, 3, _CLONE[column]),
        (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT),
        (_IF_SET, 0, 1, _NAMESPACE_FLAGS),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *line) for line in lines)
