"""Each probe runs in an interpreter of its own that installs the filter and reports what happened as JSON."""

import ctypes
import functools
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from trl_grpo_ext.sandbox.inside import seccomp


pytestmark = pytest.mark.skipif(not seccomp.supported(), reason="no seccomp filters here")
sandboxed = pytest.mark.sandbox

NOBODY = 65534
# Loaded from its text, because an interpreter that another user can run may not be able to read the package.
PRELUDE = f"""
import errno, json, os, sys, types
seccomp = types.ModuleType("seccomp")
sys.modules["seccomp"] = seccomp
exec({Path(seccomp.__file__).read_text()!r}, seccomp.__dict__)
import asyncio, concurrent.futures, ctypes, datetime, decimal, encodings.idna, faulthandler, fcntl, gc, hashlib, mmap
import random, resource, secrets, select, shutil, signal, socket, sqlite3, subprocess, tempfile, threading, time
import zoneinfo
libc = ctypes.CDLL(None, use_errno=True)
numbers = seccomp.MACHINES[os.uname().machine].numbers

def start(profile="program"):
    seccomp.install(seccomp.build(profile).for_pid(os.getpid()))

def call(number, *arguments):
    "Name of the error that a system call gives, or the empty string."
    number = numbers[number] if isinstance(number, str) else number
    ctypes.set_errno(0)
    padded = (number, *arguments, *[0] * (6 - len(arguments)))
    result = libc.syscall(*map(ctypes.c_long, padded))
    return "" if result >= 0 else errno.errorcode[ctypes.get_errno()]

def report(thing):
    print(json.dumps(thing), flush=True)
"""


@functools.cache
def interpreter(user: int | None) -> str:
    """One that the user can execute: this one may live in a private home."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            done = subprocess.run([path, "-I", "-c", "import sqlite3, zoneinfo"], user=user, check=False, cwd="/")
        except OSError:
            continue
        if done.returncode == 0:
            return path
    pytest.skip("no interpreter that another user can execute")


def probe(code: str, user: int | None = None, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [interpreter(user), "-I", "-"],
        input=PRELUDE + code,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        user=user,
        cwd="/",
        **options,
    )


def answer(code: str, user: int | None = None, **options):
    done = probe(code, user, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(params=["same user", "nobody"])
def user(request) -> int | None:
    if request.param == "same user":
        return None
    if os.getuid() != 0:
        pytest.skip("changing the user takes root")
    return NOBODY


# --- the tables ---

# Gone from architectures younger than x86_64, which have the more general call only.
OLD = set(
    "access alarm arch_prctl chmod creat dup2 epoll_create epoll_wait eventfd fork futimesat getdents getpgrp link "  # noqa: SIM905
    "lstat mkdir open pause pipe poll readlink rename rmdir select stat symlink time unlink utime utimes vfork".split()
)
NAMES = set().union(*seccomp.ALLOWED.values())


# Debian's place, else everybody else's.
X86_64_HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
if not Path(X86_64_HEADER).exists():
    X86_64_HEADER = "/usr/include/asm/unistd_64.h"


def header(path: str) -> dict[str, int]:
    if not Path(path).exists():
        pytest.skip(f"no {path}")
    text = Path(path).read_text()
    return {name: int(number) for name, number in re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", text, re.M)}


def test_x86_64_numbers_are_those_of_the_header():
    known = header(X86_64_HEADER)
    assert {name: known.get(name) for name in seccomp.X86_64} == seccomp.X86_64


def test_aarch64_numbers_are_those_of_the_generic_header():
    known = header("/usr/include/asm-generic/unistd.h")
    known["newfstatat"] = known["fstatat"]
    assert {name: known.get(name) for name in seccomp.AARCH64} == seccomp.AARCH64


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_numbers_are_those_of_libseccomp(machine):
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("no libseccomp")
    ask = library.seccomp_syscall_resolve_name_arch
    table = seccomp.MACHINES[machine]
    assert {name: ask(ctypes.c_uint32(table.audit), name.encode()) for name in table.numbers} == table.numbers


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_name_has_a_number_and_every_number_a_use(machine):
    table = seccomp.MACHINES[machine].numbers
    assert NAMES - set(table) == (OLD if machine == "aarch64" else set())
    checked = {name for profile in seccomp.ALLOWED for name in seccomp._checks(profile)}
    assert set(table) - NAMES - checked == {"seccomp"}
    assert max(table.values()) < seccomp._FIRST_UNKNOWN


FORBIDDEN = set(
    "acct add_key bind bpf chown chroot clock_adjtime clock_settime clone3 connect delete_module execveat "  # noqa: SIM905
    "fanotify_init fchown fchownat finit_module fsmount fsopen init_module inotify_init inotify_init1 io_setup "
    "io_submit io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl "
    "lchown listen memfd_create memfd_secret mknod mknodat mlock mlockall modify_ldt mount mount_setattr move_mount "
    "mq_open msgget name_to_handle_at open_by_handle_at open_tree perf_event_open personality pidfd_getfd "
    "pidfd_open pidfd_send_signal pivot_root process_madvise process_mrelease process_vm_readv process_vm_writev "
    "ptrace quotactl reboot recvmmsg remap_file_pages request_key rt_sigqueueinfo rt_tgsigqueueinfo seccomp semget "
    "semop sendmmsg setdomainname setfsgid setfsuid setgid setgroups sethostname setns setregid setresgid setresuid "
    "setreuid setrlimit setsockopt settimeofday setuid shmat shmget signalfd4 splice swapoff swapon sync "
    "sync_file_range syncfs syslog tee umount2 unshare userfaultfd vhangup vmsplice".split()
)


def test_what_is_allowed_has_nothing_of_what_is_forbidden():
    for profile, allowed in seccomp.ALLOWED.items():
        assert FORBIDDEN & allowed == ({"mount"} if profile == "cloned" else set()), profile
    processes = {"fork", "vfork", "clone", "execve", "wait4", "setsid", "kill", "tkill", "tgkill"}
    assert not processes & seccomp.ALLOWED["program"]
    assert processes & seccomp.ALLOWED["executable"] == {"execve"}
    # Landlock lets these through, and where it is all there is, the files of the host can be named.
    modes = {"chmod", "fchmod", "fchmodat", "truncate", "utime", "utimensat"}
    assert not modes & (seccomp.ALLOWED["program"] | seccomp.ALLOWED["executable"])


@sandboxed
def test_every_forbidden_call_is_refused(user):
    """With all arguments zero, so that a call the filter let through would do no harm."""
    harmless = FORBIDDEN - {"vhangup", "sync"}
    known = header(X86_64_HEADER)
    if platform.machine() != "x86_64":
        pytest.skip("numbers of the forbidden calls are read from the header of x86_64")
    refused = answer(
        f"known = {json.dumps(known)}\nstart()\nreport({{n: call(known[n]) for n in {harmless!r}}})", user
    )
    expected = dict.fromkeys(harmless, "EPERM")
    expected |= dict.fromkeys(("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"), "ENOSYS")
    assert refused == expected


# --- the filter as such ---


def run_filter(code: bytes, number: int, *arguments: int, audit: int = 0xC000003E) -> int:
    """A tiny machine for the few instructions there are."""
    words = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(*arguments, *[0] * (6 - len(arguments))))
    accumulator = at = 0
    while True:
        op, yes, no, value = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if op == seccomp._RETURN:
            return value
        if op == seccomp._LOAD:
            accumulator = struct.unpack_from("=I", words, value)[0]
        elif op == seccomp._AND:
            accumulator &= value
        elif op == seccomp._JUMP:
            at += value
        elif op == seccomp._EQUAL:
            at += yes if accumulator == value else no
        elif op == seccomp._AT_LEAST:
            at += yes if accumulator >= value else no
        else:
            raise AssertionError(op)


ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
@pytest.mark.parametrize("profile", ["program", "command"])
def test_the_tree_agrees_with_the_lists_for_every_number(name, profile):
    machine = seccomp.MACHINES[name]
    code = seccomp._encode(seccomp._instructions(machine, profile)).for_pid(77)
    checked = set(seccomp._checks(profile))
    names = {number: call for call, number in machine.numbers.items()}
    for number in range(1000):
        verdict = run_filter(code, number, audit=machine.audit)
        if number >= seccomp._FIRST_UNKNOWN:
            assert verdict == ERROR | 38
        elif names.get(number) in checked:
            assert verdict in (ALLOW, ERROR | 1, ERROR | 13, ERROR | 25, ERROR | 38)
        else:
            assert verdict == (ALLOW if names.get(number) in seccomp.ALLOWED[profile] else ERROR | 1), number


def test_other_conventions_kill():
    code = seccomp._encode(seccomp._instructions(seccomp.MACHINES["x86_64"], "program")).for_pid(77)
    i386, aarch64 = 0x40000003, 0xC00000B7
    assert run_filter(code, 39) == ALLOW
    assert run_filter(code, 39, audit=i386) == KILL
    assert run_filter(code, 39, audit=aarch64) == KILL
    assert run_filter(code, 39 | 0x40000000) == KILL
    assert run_filter(code, -1) == KILL
    arm = seccomp._encode(seccomp._instructions(seccomp.MACHINES["aarch64"], "program")).for_pid(77)
    assert run_filter(arm, 172, audit=aarch64) == ALLOW
    assert run_filter(arm, 172) == KILL


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_arguments_decide(machine):
    table = seccomp.MACHINES[machine]
    program = seccomp._encode(seccomp._instructions(table, "program")).for_pid(77)
    command = seccomp._encode(seccomp._instructions(table, "command")).for_pid(77)

    def allowed(code, name, *arguments):
        return run_filter(code, table.numbers[name], *arguments, audit=table.audit) == ALLOW

    thread, process, new_user, parent = 0x3D0F00, 0x1200011, 0x10000000, 0x8000
    assert allowed(program, "clone", thread)
    assert not allowed(program, "clone", process)
    assert not allowed(program, "clone", thread | new_user)
    assert not allowed(program, "clone", thread | parent)
    assert allowed(command, "clone", process)
    for new in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert not allowed(command, "clone", process | new)
    for name in ("kill", "tgkill"):
        assert allowed(program, name, 77, 0)
        for pid in (0, 1, 78, 0xFFFFFFFF):
            assert not allowed(program, name, pid, 0)
    for code in (program, command):
        assert allowed(code, "prlimit64", 0, 9, 0)
        assert not allowed(code, "prlimit64", 1, 9, 0)
        assert allowed(code, "socketpair", 1, 1 | 0o2004000)
        assert allowed(code, "socketpair", 1, 5)
        assert not allowed(code, "socketpair", 1, 2)
        assert not allowed(code, "socketpair", 1, 3)
        assert not allowed(code, "socketpair", 2, 1)
        assert not allowed(code, "socket", 1, 1)
        assert allowed(code, "fcntl", 3, 1030)
        for set_owner_or_signal in (8, 10, 15):
            assert not allowed(code, "fcntl", 3, set_owner_or_signal)
        assert allowed(code, "sendto", 3, 0, 0, 0x4000)
        assert not allowed(code, "sendto", 3, 0, 0, 0x4001)
        for option in (1, 4, 8, 22, 24, 36):
            assert not allowed(code, "prctl", option)
        assert allowed(code, "ioctl", 1, 0x5401)
        assert not allowed(code, "ioctl", 1, 0x5412)


def test_the_filter_is_small_and_shallow():
    for profile in seccomp.ALLOWED:
        built = seccomp.build(profile)
        assert len(built.code) // 8 < 400
        assert bool(built.pid_offsets) == (profile != "command")


def test_unknown_profile():
    with pytest.raises(ValueError, match=r"'programme'.*\['cloned', 'command', 'executable', 'program'\]"):
        seccomp.build("programme")


def test_a_machine_without_a_table(monkeypatch):
    fields = os.uname()
    monkeypatch.setattr(seccomp.os, "uname", lambda: os.uname_result((*fields[:4], "riscv64")))
    assert not seccomp.supported()
    with pytest.raises(OSError, match=r"'riscv64'.*x86_64"):
        seccomp.build("program")


def test_asking_for_support_changes_nothing():
    before = re.findall(r"Seccomp.*|NoNewPrivs.*", Path("/proc/self/status").read_text())
    assert seccomp.supported()
    assert re.findall(r"Seccomp.*|NoNewPrivs.*", Path("/proc/self/status").read_text()) == before


# --- programs ---

HONEST = {
    "threads": "out = []; t = [threading.Thread(target=out.append, args=(i,)) for i in range(8)]\n"
    "[x.start() for x in t]; [x.join() for x in t]; assert sorted(out) == list(range(8))",
    "pool": "with concurrent.futures.ThreadPoolExecutor(4) as pool: assert list(pool.map(abs, [-1, -2])) == [1, 2]",
    "asyncio": "async def main():\n    await asyncio.sleep(0.01)\n    return await asyncio.to_thread(lambda: 5)\n"
    "assert asyncio.run(main()) == 5",
    "decimal": "assert str(decimal.Decimal(1) / 3).startswith('0.333')",
    "hashlib": "assert len(hashlib.sha256(b'x').hexdigest()) == 64",
    "random": "random.seed(); random.random(); secrets.token_hex(8); os.urandom(3)",
    "tempfile": "with tempfile.NamedTemporaryFile('w+') as f:\n    f.write('x'); f.flush(); f.seek(0)\n"
    "    assert f.read() == 'x'",
    "folders": "d = tempfile.mkdtemp(); os.mkdir(d + '/a'); open(d + '/a/b', 'w').close()\n"
    "os.rename(d + '/a/b', d + '/c')\n"
    "shutil.copyfile(d + '/c', d + '/e'); assert sorted(os.listdir(d)) == ['a', 'c', 'e']\n"
    "shutil.rmtree(d)",
    "time": "time.sleep(0.01); time.monotonic(); time.process_time(); time.perf_counter()",
    "alarm": "def late(*_): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.02)\n"
    "try:\n    time.sleep(5)\nexcept TimeoutError: pass\nelse: raise SystemError\nsignal.alarm(1); signal.alarm(0)",
    "own signals": "got = []\nsignal.signal(signal.SIGUSR1, lambda *_: got.append(1))\n"
    "os.kill(os.getpid(), signal.SIGUSR1); signal.raise_signal(signal.SIGUSR1)\n"
    "signal.pthread_kill(threading.get_ident(), signal.SIGUSR1); assert len(got) == 3, got",
    "mmap": "m = mmap.mmap(-1, 8192); m[:2] = b'ab'; assert m[:2] == b'ab'; m.close()",
    "select": "r, w = os.pipe(); os.write(w, b'x'); assert select.select([r], [], [], 1)[0] == [r]\n"
    "p = select.poll(); p.register(r); assert p.poll(100); os.close(r); os.close(w)",
    "socketpair": "a, b = socket.socketpair(); a.sendall(b'x'); assert b.recv(1) == b'x'; a.setblocking(False)\n"
    "a.close(); b.close()",
    "sqlite": "c = sqlite3.connect(':memory:'); assert c.execute('select 1+1').fetchone() == (2,)",
    "machine": "assert os.cpu_count(); os.sched_getaffinity(0); os.uname(); os.getloadavg",
    "resource": "resource.getrusage(resource.RUSAGE_SELF); resource.getrlimit(resource.RLIMIT_AS)\n"
    "soft, hard = resource.getrlimit(resource.RLIMIT_STACK); resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))",
    "recursion": "sys.setrecursionlimit(50000); threading.stack_size(64 << 20)\n"
    "def f(n): return n and f(n - 1)\nt = threading.Thread(target=f, args=(20000,)); t.start(); t.join()",
    "zoneinfo": "datetime.datetime.now(datetime.timezone.utc); zoneinfo.ZoneInfo('UTC'); time.localtime()",
    "faulthandler": "faulthandler.enable(); faulthandler.dump_traceback_later(5)\n"
    "faulthandler.cancel_dump_traceback_later()",
    "interpreter": "sys.setswitchinterval(0.001); gc.collect()",
    "ctypes": "f = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x + 1); assert f(1) == 2",
    "statistics": "import statistics, fractions, itertools, heapq; statistics.mean([1, 2])",
    "open files": "os.closerange(100, 200); os.dup(0); os.isatty(0); os.get_terminal_size",
}


@sandboxed
def test_honest_programs_work(user):
    code = f"honest = {HONEST!r}\nstart()\n" + (
        "def failure(source):\n"
        "    try:\n        exec(source, globals())\n    except BaseException as error:\n        return repr(error)\n"
        "report({name: failure(source) for name, source in honest.items()})"
    )
    assert answer(code, user) == dict.fromkeys(HONEST)


REFUSED = {
    "fork": "os.fork()",
    "subprocess": "subprocess.run(['/bin/true'])",
    "subprocess without a new group of files": "subprocess.run(['/bin/true'], close_fds=False)",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "exec": "os.execv('/bin/true', ['true'])",
    "kill the parent": "os.kill(os.getppid(), 9)",
    "kill all": "os.kill(-1, 9)",
    "kill the group": "os.killpg(0, 9)",
    "socket": "socket.socket()",
    "unix socket": "socket.socket(socket.AF_UNIX)",
    "datagram pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "other's limits": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "signals by descriptor": "fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "device": "os.mknod('/tmp/node', 0o20666, 259)",
    "fifo": "os.mkfifo('/tmp/fifo')",
    "owner": "os.chown('/tmp', 0, 0)",
    "user": "os.setuid(0)",
    "nice": "os.nice(1)",
    "affinity of others": "os.sched_setaffinity(os.getppid(), [0])",
}


@sandboxed
def test_what_is_refused_is_a_permission_error_at_once(user):
    code = f"refused = {REFUSED!r}\nstart()\n" + (
        "def kind(source):\n"
        "    try:\n        exec(source, globals())\n"
        "    except BaseException as error:\n        return type(error).__name__\n"
        "report({name: kind(source) for name, source in refused.items()})"
    )
    assert answer(code, user) == dict.fromkeys(REFUSED, "PermissionError")


@sandboxed
def test_limits_can_still_be_lowered_but_not_raised(user):
    code = (
        "if os.getuid() == 0: os.setuid(65534)\n"
        "start()\nresource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))\n"
        "try:\n    resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\nexcept (OSError, ValueError): pass\n"
        "report(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert answer(code, user) == [50, 50]


@sandboxed
def test_the_filter_holds_threads_that_run_already_and_cannot_be_lifted():
    code = (
        "go = threading.Event(); out = []\n"
        "def work():\n    go.wait()\n    out.append(call('socket', 2, 1, 0))\n"
        "t = threading.Thread(target=work); t.start(); start(); go.set(); t.join()\n"
        "out.append(call('seccomp', 1, 0, 0)); out.append(call('prctl', 22, 0, 0)); report(out)"
    )
    assert answer(code) == ["EACCES", "EPERM", "EPERM"]


@sandboxed
@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is a convention of x86_64")
def test_a_call_in_another_convention_kills():
    done = probe("start(); print('before', flush=True); call(0x40000000 | 39); print('after')")
    assert (done.returncode, done.stdout) == (-31, "before\n")


@sandboxed
def test_the_process_can_still_end_itself(user):
    assert probe("start(); os.abort()", user).returncode == -6
    assert probe("start(); os._exit(7)", user).returncode == 7
    assert probe("start(); sys.exit(3)", user).returncode == 3
    assert probe("start(); ctypes.string_at(0)", user).returncode == -11


@sandboxed
def test_install_reports_what_the_kernel_says():
    code = "try:\n    seccomp.install(b'x' * 8)\nexcept OSError as error:\n    report([error.errno, str(error)])"
    number, text = answer(code)
    assert number == 22
    assert "seccomp(SECCOMP_SET_MODE_FILTER) failed" in text


# --- commands ---


def command(argv: list[str], user: int | None = None, **options) -> subprocess.CompletedProcess:
    return probe(f"start('command'); os.execv({argv[0]!r}, {argv!r})", user, **options)


@sandboxed
def test_a_command_may_start_processes(user):
    done = command(
        ["/bin/sh", "-c", "echo hi | cat; sleep 5 & kill $!; wait $!; echo $?; echo a b | (read x y; echo $y)"], user
    )
    assert (done.returncode, done.stdout) == (0, "hi\n143\nb\n"), done.stderr


@sandboxed
def test_a_command_may_be_an_interpreter_with_children(user):
    python = interpreter(user)
    inner = (
        "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', 'print(5)'], text=True), end='')"
    )
    done = command([python, "-I", "-c", inner], user)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr


@sandboxed
def test_a_command_is_held_as_well():
    code = (
        "start('command')\n"
        "report([call('socket', 2, 1, 0), call('clone3'), call('clone', 0x10000000 | 17),\n"
        "        call('prlimit64', os.getppid())])"
    )
    assert answer(code) == ["EACCES", "ENOSYS", "EPERM", "EPERM"]


@sandboxed
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_compiler_works(tmp_path):
    (tmp_path / "one.c").write_text('#include <stdio.h>\nint main(void) { puts("made"); return 0; }\n')
    script = f"gcc -O1 -o {tmp_path}/one {tmp_path}/one.c && {tmp_path}/one"
    done = command(["/bin/sh", "-c", script], env={**os.environ, "TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "made\n"), done.stderr
