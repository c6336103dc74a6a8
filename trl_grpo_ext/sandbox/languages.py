"""Languages other than Python: how their programs are built and run, if their compilers are there."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from trl_grpo_ext.errors import SandboxError


BUILD_SECONDS = 30.0  # not paid from the time of the program
BUILD_MEMORY_MB = 2048
BUILD_FOLDER_BYTES = 256 << 20  # intermediate files
_SYSTEM = ("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/include", "/lib", "/lib64", "/bin")
_SETTINGS = ("/etc/alternatives", "/etc/ld.so.cache")


@dataclass(frozen=True)
class Language:
    """
    A language.

    Args:
        tool (`str`):
            The executable that has to be there.
        source (`str`):
            Name of the file that holds the program.
        build (`tuple[str, ...]`):
            Arguments of the tool that make an executable `main` of it; none for a language that is interpreted.
        run (`tuple[str, ...]`):
            Arguments of the tool that run it; none for one that is built.
        counts_reserved (`bool`, *optional*, defaults to `True`):
            Whether memory that is reserved but not used counts; a runtime may reserve far more than it ever uses.
    """

    tool: str
    source: str
    build: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    counts_reserved: bool = True


LANGUAGES: dict[str, Language] = {
    "cpp": Language("g++", "main.cpp", ("-O2", "-std=c++17", "-pipe", "-o", "main", "main.cpp")),
    "javascript": Language(
        "node",
        "main.js",
        run=("--stack-size=60000", "--v8-pool-size=1", "--openssl-config=/dev/null", "main.js"),
        counts_reserved=False,
    ),
    # Rust's own linker looks for itself under /proc, which is not there.
    "rust": Language(
        "rustc", "main.rs", ("-O", "--edition=2021", "-C", "link-arg=-fuse-ld=bfd", "-o", "main", "main.rs")
    ),
}


@dataclass(frozen=True)
class Toolchain:
    """
    What is on this machine of a language.

    Args:
        language ([`Language`]):
            The language.
        tool (`str`):
            Path of its executable.
        reads (`tuple[str, ...]`):
            What has to be seen of the host to use it.
        arguments (`tuple[str, ...]`, *optional*, defaults to `()`):
            What the tool has to be told on this machine.
        settings (`dict[str, str]`, *optional*):
            Environment variables that it needs.
    """

    language: Language
    tool: str
    reads: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@cache
def find_toolchain(name: str) -> Toolchain | None:
    """
    Return what is here of a language, or `None`.

    Args:
        name (`str`):
            A key of `LANGUAGES`.

    Raises:
        [`~errors.SandboxError`]: if there is no such language.
    """
    if name not in LANGUAGES:
        raise SandboxError(f"the sandbox knows no language {name!r}; it knows python, {', '.join(LANGUAGES)}")
    language = LANGUAGES[name]
    found = shutil.which(language.tool)
    if found is None:
        return None
    folders: list[str] = []
    arguments: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    if name == "rust":  # what is found is often a proxy that looks for the real one in the user's home
        sysroot = _rust_sysroot(found)
        if sysroot is None:
            return None
        found = f"{sysroot}/bin/rustc"
        folders = [sysroot]
        arguments, settings = ("--sysroot", sysroot), {"LD_LIBRARY_PATH": f"{sysroot}/lib"}
    found = os.path.realpath(found)
    reads = [path for path in (*_SYSTEM, *_SETTINGS, *folders, found) if os.path.exists(path)]
    return Toolchain(language, found, tuple(dict.fromkeys(reads)), arguments, settings)


def toolchain_of(name: str) -> Toolchain:
    """
    As [`find_toolchain`], where it is needed.

    Raises:
        [`~errors.SandboxError`]: if it is not there.
    """
    toolchain = find_toolchain(name)
    if toolchain is None:
        raise SandboxError(f"programs in {name} need {LANGUAGES[name].tool}, which is not on PATH")
    return toolchain


def _rust_sysroot(rustc: str) -> str | None:
    try:
        printed = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    sysroot = printed.stdout.strip()
    return sysroot if os.path.exists(f"{sysroot}/bin/rustc") else None
