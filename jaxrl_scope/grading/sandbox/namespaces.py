"""Linux namespaces by plain system calls: a root without the host's files, no network, no rights.

Works as root (rights are dropped to `nobody` once the root is built) and as an ordinary user where
the kernel allows user namespaces. Everything here raises OSError where the kernel refuses.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from jaxrl_scope.grading.sandbox import seccomp

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 1, 2, 4, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_CAPABILITY_VERSION_3 = 0x20080522
_NOBODY = 65534

SCRATCH = "/scratch"
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")

_libc = ctypes.CDLL(None, use_errno=True)
_python = ctypes.PyDLL(None, use_errno=True)  # calls that keep the interpreter lock


class _Numbers(NamedTuple):
    clone: int
    pivot_root: int


_SYSTEM_CALLS = {"x86_64": _Numbers(56, 155), "aarch64": _Numbers(220, 41)}


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags`."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    arguments = (source.encode(), target.encode(), kind.encode() or None)
    _check(_libc.mount(*arguments, flags, options.encode() or None), f"mount {target}")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, 9)


def enter(root: str, hidden: Path) -> None:
    """Move this process into its own user, mount, network, IPC and UTS namespaces.

    Afterwards the file system holds the system's libraries and this interpreter, read-only, and an
    empty scratch directory; `hidden`, this package itself, is not in it. `root` is an empty
    directory to build it on.
    """
    if os.uname().machine not in _SYSTEM_CALLS:
        raise OSError(f"system calls of {os.uname().machine} are not known here")
    proc = os.open("/proc", os.O_PATH)
    apart = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    if os.geteuid() == 0:
        unshare(apart)
        _build_root(root, hidden)
        # Not root outside either: the kernel does not count root's processes, for one.
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        _libc.prctl(_PR_SET_DUMPABLE, 1)  # or /proc/self stays root's
        _enter_user_namespace(proc)
    else:
        _enter_user_namespace(proc)
        unshare(apart)
        _build_root(root, hidden)
    os.close(proc)
    # The children of a later run cannot trace this process, which is their user's too.
    _libc.prctl(_PR_SET_DUMPABLE, 0)


def _enter_user_namespace(proc: int) -> None:
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {uid} 1"),
        ("gid_map", f"0 {gid} 1"),
    ):
        file = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc)
        os.write(file, text.encode())
        os.close(file)


def _build_root(root: str, hidden: Path) -> None:
    mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=1m")
    libraries = {*_SYSTEM, sys.prefix, sys.base_prefix, *filter(_is_site, sys.path)}
    for path in sorted(filter(os.path.exists, libraries)):
        _bind(path, root + path)
    for path in _DEVICES:
        _bind(path, root + path, device=True)
    if hidden.is_dir() and os.path.isdir(root + str(hidden)):
        mount("tmpfs", root + str(hidden), "tmpfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, "size=4k")
    for name in (SCRATCH, "/old"):
        os.makedirs(root + name, exist_ok=True)
    os.chdir(root)
    number = _SYSTEM_CALLS[os.uname().machine].pivot_root
    _check(_libc.syscall(number, root.encode(), (root + "/old").encode()), "pivot_root")
    os.chdir("/")
    _check(_libc.umount2(b"/old", _MNT_DETACH), "umount /old")
    os.rmdir("/old")
    mount("none", "/", flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _is_site(path: str) -> bool:
    return path.endswith(("site-packages", "dist-packages")) and os.path.isdir(path)


def _bind(source: str, target: str, *, device: bool = False) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).touch()
    mount(source, target, flags=_MS_BIND)
    flags = _MS_REMOUNT | _MS_BIND | _MS_NOSUID | (0 if device else _MS_RDONLY | _MS_NODEV)
    mount("none", target, flags=flags)


def fork_isolated() -> int:
    """Fork into a process, mount and IPC namespace of its own; returns as `os.fork`.

    One clone(2) in place of unshare, fork and fork again: forks are what a run costs. The caller
    must have a single thread.
    """
    _python.PyOS_BeforeFork()
    flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | signal.SIGCHLD
    pid = _python.syscall(_SYSTEM_CALLS[os.uname().machine].clone, flags, 0, 0, 0, 0)
    if pid == 0:
        _python.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    _python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def finish_run(file_mb: int) -> None:
    """In the run's first process: empty scratch, then no capability and fewer system calls."""
    options = f"mode=700,size={file_mb}m,nr_inodes=1k"
    mount("tmpfs", SCRATCH, "tmpfs", _MS_NOSUID | _MS_NODEV, options)
    os.chdir(SCRATCH)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    seccomp.restrict()
