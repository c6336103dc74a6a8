"""Runs of whole programs: a process for each input, in Python or in another language."""

import contextlib
import math
import os
import time
from collections.abc import Iterator

from trl_grpo_ext.sandbox.codec import CodecError
from trl_grpo_ext.sandbox.jobs import Limits, Ran, Run
from trl_grpo_ext.sandbox.languages import BUILD_FOLDER_BYTES, BUILD_MEMORY_MB, BUILD_SECONDS, Toolchain, toolchain_of
from trl_grpo_ext.sandbox.local.conversation import Clock, Conversation, Ended, TimeUp
from trl_grpo_ext.sandbox.local.endings import fresh_worker, read_report, why_it_ended
from trl_grpo_ext.sandbox.local.zygote import Zygote


def run(zygote: Zygote, job: Run, clock: Clock, limits: dict) -> Iterator[Ran]:
    """
    Run a program for each input in turn; nothing more after one that was out of time.

    Args:
        zygote ([`Zygote`]):
            That of the program's language.
        job ([`~trl_grpo_ext.sandbox.jobs.Run`]):
            The job.
        clock ([`Clock`]):
            Its time.
        limits (`dict`):
            Its limits, as workers take them.
    """
    with contextlib.ExitStack() as stack:
        if job.language == "python":
            begin: tuple = ("run", job.source, limits)
            files: tuple[int, ...] = ()
        else:
            toolchain = toolchain_of(job.language)
            product = stack.enter_context(_memory_file(b""))
            fault = _build(zygote, toolchain, job.source, product)
            if fault is not None:
                yield fault
                return
            begin, files = _execution(toolchain, job.limits, clock), (product,)
        for text in job.inputs:
            ran = _run_once(zygote, job, text, clock, begin, files)
            yield ran
            if ran.ended == "timeout":
                return


def _build(zygote: Zygote, toolchain: Toolchain, source: str, product: int) -> Ran | None:
    """Fill a file with what is to be executed; return why that cannot be done, if so."""
    language = toolchain.language
    if not language.build:
        _write(product, source.encode("utf-8", "surrogatepass"))
        return None
    clock = Clock(BUILD_SECONDS)
    limits = Limits(memory_mb=BUILD_MEMORY_MB, file_bytes=BUILD_FOLDER_BYTES, open_files=256)
    with fresh_worker(zygote, clock) as (number, talk):
        clock.begin(lambda: math.inf)  # a compiler works in other processes; all of its time counts
        command = (toolchain.tool, *toolchain.arguments, *language.build)
        job = ((language.source, source), command, dict(toolchain.settings), _plain(limits, clock))
        try:
            talk.begin("build", *job, descriptors=(product,))
            ended, note = read_report(talk.receive())
        except TimeUp:
            ended, note = "raised", f"CompileError: not done within {BUILD_SECONDS:g} s"
        except (Ended, CodecError):
            ended, note = why_it_ended(zygote, number, clock)
            ended = "raised" if ended == "ok" else ended
    return None if ended == "ok" else Ran(ended, note=note)  # type: ignore[arg-type]


def _execution(toolchain: Toolchain, limits: Limits, clock: Clock) -> tuple:
    language = toolchain.language
    if language.build:
        return ("execute", "main", ("./main",), language.counts_reserved, _plain(limits, clock))
    command = (toolchain.tool, *language.run)
    return ("execute", language.source, command, language.counts_reserved, _plain(limits, clock))


def _plain(limits: Limits, clock: Clock) -> dict:
    return {
        "memory_bytes": limits.memory_mb << 20,
        "seconds": 2 * clock.seconds,
        "file_bytes": max(limits.file_bytes, limits.output_bytes + 1),
        "open_files": limits.open_files,
    }


def _run_once(zygote: Zygote, job: Run, text: str, clock: Clock, begin: tuple, files: tuple) -> Ran:
    with _memory_file(text.encode("utf-8", "surrogatepass")) as given, _memory_file(b"") as printed:
        with fresh_worker(zygote, clock) as (number, talk):
            clock.begin(lambda: zygote.processor_seconds(number))
            begun = time.monotonic()
            try:
                talk.begin(*begin, descriptors=(given, printed, *files))
                ended, note = _end(talk, job)
            except TimeUp:
                ended, note = "timeout", f"not done within {clock.seconds:g} s"
            except (Ended, CodecError):
                ended, note = why_it_ended(zygote, number, clock)
            clock.stop()
        seconds = time.monotonic() - begun
        size = os.fstat(printed).st_size
        if size > job.limits.output_bytes:
            ended, note = "output", f"it printed {size} bytes; the most is {job.limits.output_bytes}"
        output = os.pread(printed, min(size, job.limits.output_bytes), 0).decode("utf-8", "replace")
        return Ran(ended, output, note, seconds)  # type: ignore[arg-type]


def _end(talk: Conversation, job: Run) -> tuple[str, str]:
    if job.language == "python":
        return read_report(talk.receive())
    talk.drain()  # what is no longer ours says nothing that counts
    raise Ended


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    """A file that programs may seek in and ask for the size of, as many do with standard input."""
    descriptor = os.memfd_create("standard", os.MFD_CLOEXEC)
    try:
        _write(descriptor, content)
        yield descriptor
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
