import json
import subprocess
import sys

import pytest

from trl_grpo_ext.sandbox.inside import rlimits


MIB = 1 << 20
START = "import json, os, resource\nfrom trl_grpo_ext.sandbox.inside import rlimits\n"


def run(code: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", START + code], capture_output=True, text=True, timeout=60, check=False, **options
    )


@pytest.mark.sandbox
def test_limits_are_what_was_asked_for_both_soft_and_hard():
    done = run(
        "rlimits.apply(512 << 20, 2.25, 1000, 30)\n"
        "names = 'CORE AS CPU FSIZE NOFILE MEMLOCK MSGQUEUE'.split()\n"
        "print(json.dumps({n: resource.getrlimit(getattr(resource, 'RLIMIT_' + n)) for n in names}))"
    )
    assert done.returncode == 0, done.stderr
    expected = {"CORE": 0, "AS": 512 * MIB, "CPU": 4, "FSIZE": 1000, "NOFILE": 30}
    expected |= {"MEMLOCK": 0, "MSGQUEUE": 0}
    assert json.loads(done.stdout) == {name: [value, value] for name, value in expected.items()}


@pytest.mark.sandbox
def test_a_lower_hard_limit_stays_and_nothing_fails():
    done = run(
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 25))\n"
        "rlimits.apply(512 << 20, 2, 1000, 4096)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert done.stdout == "(25, 25)\n", done.stderr


@pytest.mark.sandbox
def test_the_limits_bite():
    done = run(
        "rlimits.apply(512 << 20, 30, 1000, 20)\n"
        "try:\n    bytearray(600 << 20)\nexcept MemoryError:\n    print('memory')\n"
        "try:\n    [os.dup(0) for _ in range(30)]\nexcept OSError as error:\n    print(os.strerror(error.errno))\n"
    )
    assert done.stdout == "memory\nToo many open files\n", done.stderr


@pytest.mark.sandbox
def test_a_program_that_works_too_long_is_killed():
    done = run("rlimits.apply(512 << 20, 0, 1000, 20)\nwhile True: pass")
    assert done.returncode == -9


@pytest.mark.sandbox
def test_a_file_that_grows_too_large(tmp_path):
    done = run(
        f"rlimits.apply(512 << 20, 30, 1000, 20)\n"
        f"with open({str(tmp_path / 'large')!r}, 'wb', buffering=0) as file:\n"
        f"    print(file.write(b'x' * 5000))\n"
        f"    try:\n        file.write(b'x')\n    except OSError as error:\n        print(os.strerror(error.errno))\n"
    )
    assert done.stdout == "1000\nFile too large\n", done.stderr


def test_a_negative_limit_is_refused_because_it_would_mean_none():
    with pytest.raises(ValueError, match=r"-1 was asked for"):
        rlimits._lower(0, -1)
