"""Programs run by a service over HTTP: SandboxFusion, or Piston.

Python programs are not run by the service itself. It runs the agent of [`~trl_grpo_ext.sandbox.agent`], once for each
job, which arrives with the request, and isolates and limits the program there as the local sandbox does here: so the
results are the same, tests stay out of the program's process, and what a program prints is no answer. Programs in
other languages are run by the service directly, one request for each input.

The APIs are those of the two repositories as they were read on 2026-12-01:
https://github.com/bytedance/SandboxFusion (469de08: sandbox/server/sandbox_api.py, sandbox/runners/base.py) and
https://github.com/engineer-man/piston (0a844d0: docs/api-v2.md, api/src/api/v2.js, api/src/job.js).

Covered: refused and lost connections, busy and failing services, answers cut short or no answers at all are met with
further attempts, further and further apart, then with [`~errors.SandboxError`]; a request that the service calls wrong
is not repeated. The level of isolation is what the agent finds there, and a level that is too low is refused.

Not covered: the service's own walls, and who else uses it: it sees programs and tests. A job of Python takes the start
of two interpreters there, and its results come together, at its end. The services have limits of their own. Piston's
defaults are too low: start it with `PISTON_RUN_TIMEOUT`, `PISTON_RUN_CPU_TIME` and `PISTON_OUTPUT_MAX_SIZE` raised; it
takes requests of 100 kB at most. SandboxFusion stops a program in another language than Python that prints more than
about 128 kB. With another language than Python, a lack of memory is told from other ends by Piston only, time is that
on the clock even if the service is busy, and how fast the service is nobody measures: `time_scale` says it, else 1.
"""

import base64
import functools
import http.client
import json
import math
import secrets
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trl_grpo_ext.errors import ConfigError, SandboxError
from trl_grpo_ext.sandbox import agent
from trl_grpo_ext.sandbox.backend import OneWay
from trl_grpo_ext.sandbox.bundle import bundle
from trl_grpo_ext.sandbox.jobs import Job, Limits, Ran, Result, Run
from trl_grpo_ext.sandbox.languages import BUILD_SECONDS, LANGUAGES
from trl_grpo_ext.sandbox.options import Isolation, SandboxOptions, longest_seconds
from trl_grpo_ext.sandbox.retrying import Unavailable, repeated


_COMPILE_SECONDS = 2 * BUILD_SECONDS  # on the clock; the local sandbox counts seconds of the processor
_MOST_ANSWER = 128 << 20  # bytes of an answer over HTTP
_MOST_RESULTS = 32 << 20  # bytes of all results of a job
_NOTE = 300
_NONCE_BYTES = 24
_BUSY = (408, 425, 429)
_NOTHING = Run("", (), limits=Limits(seconds=0.01))  # a job that only finds out what protects programs there
_START_AGENT = """import runpy, sys
sys.argv[1:] = ["--once", "order.bin", {answer!r}]
runpy.run_path("agent.zip", run_name="__main__")
"""


class _HttpSandbox(OneWay):
    """What the services have in common: agents for Python, and everything about requests."""

    most_results = _MOST_RESULTS
    path: str
    languages: ClassVar[Mapping[str, str]]

    def __init__(
        self,
        url: str,
        workers: int = 8,
        attempts: int = 4,
        patience: float = 60.0,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ):
        checked = SandboxOptions.parse({"workers": workers, **options})
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError(f"url is {url!r}; it must begin with http:// or https://")
        if type(attempts) is not int or attempts < 1:
            raise ConfigError(f"attempts is {attempts!r}; it must be a whole number of 1 or more")
        if not patience > 0:
            raise ConfigError(f"patience is {patience!r}; it must be above 0")
        self.url = url.rstrip("/")
        self.workers = workers
        self.attempts = attempts
        self.patience = patience
        self.headers = {"Content-Type": "application/json", **(headers or {})}
        self.options = {**options, "workers": 1}
        self._checked = checked
        self._slots = threading.BoundedSemaphore(workers)
        self._opening = threading.Lock()
        self._isolation: Isolation | None = None

    def isolation(self) -> Isolation:
        """
        What the agent finds that protects the service's machine.

        Raises:
            [`~errors.SandboxError`]: if it is less than the options ask for, or the service does not work.
        """
        with self._opening:
            if self._isolation is None:
                self._isolation = repeated(lambda: self._ask_agent(_NOTHING, self.probe_bytes())[0], self.attempts)
        return self._isolation

    def close(self) -> None:
        """Nothing lasts from one request to the next."""

    def _do(self, job: Any) -> Iterator[Any]:
        if getattr(job, "language", "python") == "python":
            return self._have_done(job)
        return self._run_directly(job)

    # --------------------------------------------------------------------------------------------------------- agents

    def _have_done(self, job: Job) -> Iterator[Any]:
        with self._slots:
            self.isolation()
            results = repeated(lambda: self._ask_agent(job)[1], self.attempts)
        yield from results

    def _ask_agent(self, job: Job, pad: int = 0) -> tuple[Isolation, list[Result]]:
        nonce = secrets.token_hex(_NONCE_BYTES).encode()
        order = agent.order_once(nonce, self.options, job, self.most_results, pad)
        files = {"agent.zip": bundle(), "order.bin": order}
        said, told = self._run_agent(files, longest_seconds(job, self._checked))
        _, found, answer = said.partition(nonce)
        if not found:
            raise Unavailable(
                f"{self.url} ran the sandbox's agent, which gave no answer: {_last(told) or 'no reason'}"
            )
        try:
            return agent.read_once(base64.b64decode(answer.strip(), validate=True))
        except (ValueError, agent.Closed) as error:
            raise Unavailable(f"{self.url} passed on only a part of the agent's answer ({error})") from None

    def probe_bytes(self) -> int:
        """How much a first answer is filled up, to see that as much comes through."""
        return 0

    def _run_agent(self, files: dict[str, bytes], seconds: float) -> tuple[bytes, str]:
        """Have the agent run with these files beside it; return its answer and what it complained about."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ other languages

    def _run_directly(self, job: Run) -> Iterator[Ran]:
        language = self.languages.get(job.language, job.language)
        seconds = left = job.limits.seconds * (self._checked.time_scale or 1.0)
        with self._slots:
            for text in job.inputs:
                if left <= 0:
                    yield Ran("timeout", note=f"not done within {seconds:g} s")
                    return
                ran = repeated(functools.partial(self._run, job, language, text, left), self.attempts)
                left -= ran.seconds
                yield _cut(ran, job.limits.output_bytes)
                if ran.ended in ("timeout", "raised"):  # what has raised is the compiler
                    return

    def _run(self, job: Run, language: str, text: str, seconds: float) -> Ran:
        """Run a program with one input for no more than so many seconds; `"raised"` if it does not compile."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------- requests

    def _post(self, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request and return the answer to it, waiting longer than the program may take."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{self.path}", data, self.headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=seconds + self.patience) as answer:
                said = answer.read(_MOST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            with error:
                words = _words(error.read(1 << 16))
            if error.code in _BUSY or error.code >= 500:
                raise Unavailable(f"{self.url} answers with status {error.code}: {_last(words)}") from None
            told = f"{_last(words)}{self._advice(words)}"
            raise SandboxError(f"{self.url} refuses a request (status {error.code}): {told}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self.url} cannot be reached ({error}); is the service running?") from None
        try:
            read = json.loads(said)
        except ValueError:
            read = None
        if len(said) > _MOST_ANSWER or not isinstance(read, dict):
            raise Unavailable(f"{self.url} answers with something else than a JSON object")
        return read

    def _advice(self, words: str) -> str:
        """What to do about a request that was refused with these words."""
        return ""


class SandboxFusion(_HttpSandbox):
    """
    Runs programs on a SandboxFusion service.

    Args:
        url (`str`):
            Where it is, such as `"http://localhost:8080"`.
        workers (`int`, *optional*, defaults to `8`):
            Requests at a time.
        attempts (`int`, *optional*, defaults to `4`):
            How often a request is made that fails for no fault of its own.
        patience (`float`, *optional*, defaults to `60.0`):
            Seconds that a request may take longer than the program it is about.
        headers (`dict[str, str]`, *optional*):
            Headers of every request, such as `Authorization`.
        **options:
            Others of [`SandboxOptions`]; they are for the agent.

    Raises:
        [`~errors.ConfigError`]: if an option is unknown or has a wrong value.
    """

    path = "/run_code"
    languages: ClassVar = {"javascript": "nodejs"}
    _ANSWER = "answer.bin"
    _STALLED = 64 << 10  # a program that has printed more than what fits into the service's pipe waits for ever

    def _run_agent(self, files: dict[str, bytes], seconds: float) -> tuple[bytes, str]:
        answer = self._post(
            {
                "language": "python",
                "code": _START_AGENT.format(answer=self._ANSWER),
                "run_timeout": seconds,
                "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
                # Standard output stalls after some 128 kB; a file does not.
                "fetch_files": [self._ANSWER],
            },
            seconds,
        )
        ran = self._stage(answer, "run_result")
        fetched = answer.get("files")
        text = fetched.get(self._ANSWER, "") if isinstance(fetched, dict) else ""
        try:
            return base64.b64decode(text), str(ran.get("stderr") or ran.get("status"))
        except (ValueError, TypeError):
            raise Unavailable(f"{self.url} returns a file that is not encoded as agreed") from None

    def _run(self, job: Run, language: str, text: str, seconds: float) -> Ran:
        body = {
            "language": language,
            "code": job.source,
            "stdin": text,
            "compile_timeout": _COMPILE_SECONDS,
            "run_timeout": seconds,
        }
        known = LANGUAGES.get(job.language)
        if known is not None and known.counts_reserved:  # the service limits addresses, not what is used of them
            body["memory_limit_MB"] = job.limits.memory_mb
        answer = self._post(body, _COMPILE_SECONDS + seconds)
        if answer.get("compile_result"):
            compiled = self._stage(answer, "compile_result")
            if compiled["status"] == "TimeLimitExceeded":
                return Ran("raised", note=f"CompileError: not done within {_COMPILE_SECONDS:g} s")
            if compiled.get("return_code") != 0:
                return Ran("raised", note=f"CompileError: {_last(compiled.get('stderr'))}")
        ran = self._stage(answer, "run_result")
        output, took = str(ran.get("stdout") or ""), float(ran.get("execution_time") or 0.0)
        if ran["status"] == "TimeLimitExceeded":
            stalled = len(output.encode("utf-8", "replace")) >= self._STALLED
            note = "it printed more than the service passes on" if stalled else f"not done within {seconds:g} s"
            return Ran("output" if stalled else "timeout", output, note, took)
        if ran.get("return_code") == 0:
            return Ran("ok", output, "", took)
        return Ran("exited", output, f"exit code {ran.get('return_code')}: {_last(ran.get('stderr'))}", took)

    def _stage(self, answer: dict[str, Any], name: str) -> dict[str, Any]:
        stage = answer.get(name)
        if answer.get("status") not in ("Success", "Failed"):
            raise Unavailable(f"{self.url} says {answer.get('status')!r}: {_last(answer.get('message'))}")
        if not isinstance(stage, dict) or stage.get("status") not in ("Finished", "TimeLimitExceeded"):
            raise Unavailable(f"{self.url} answers without a usable {name}")
        return stage


class PistonSandbox(_HttpSandbox):
    """
    Runs programs on a Piston service.

    Args:
        url (`str`):
            Where it is, such as `"http://localhost:2000"`.
        output_max_size (`int`, *optional*, defaults to `1 MiB`):
            The `PISTON_OUTPUT_MAX_SIZE` with which the service was started; its own default of 1024 bytes is too low.
            That as much comes through is tried at the first job.
        versions (`dict[str, str]`, *optional*):
            Version of a language that is asked for, as a range; by default any, and Python 3.10 or newer.
        **options:
            The others of [`SandboxFusion`].

    Raises:
        [`~errors.ConfigError`]: if an option is unknown or has a wrong value.
    """

    path = "/api/v2/execute"
    languages: ClassVar = {"cpp": "c++"}
    _LEAST_OUTPUT = 8 << 10
    _NEAR = 0.95  # of its memory: a program that was killed there was killed for it

    def __init__(
        self, url: str, output_max_size: int = 1 << 20, versions: Mapping[str, str] | None = None, **options: Any
    ):
        super().__init__(url, **options)
        if type(output_max_size) is not int or output_max_size < self._LEAST_OUTPUT:
            raise ConfigError(f"output_max_size is {output_max_size!r}; it must be {self._LEAST_OUTPUT} or more")
        self.versions = {"python": ">=3.10", **(versions or {})}
        self.output_max_size = output_max_size
        self.most_results = min(output_max_size * 3 // 4 - (4 << 10), _MOST_RESULTS)  # encoded, and with some words

    def probe_bytes(self) -> int:
        return self.most_results

    def _run_agent(self, files: dict[str, bytes], seconds: float) -> tuple[bytes, str]:
        sent: list[dict[str, str]] = [{"name": "main.py", "content": _START_AGENT.format(answer="-")}]
        for name, data in files.items():
            sent.append({"name": name, "content": base64.b64encode(data).decode(), "encoding": "base64"})
        ran = self._stage(self._execute("python", sent, "", seconds), "run")
        if ran.get("status") == "OL":
            raise SandboxError(
                f"{self.url} cuts off what programs print below {self.output_max_size} bytes; start it with "
                f"PISTON_OUTPUT_MAX_SIZE={self.output_max_size}, or lower the sandbox's output_max_size"
            )
        told = ran.get("stderr") or ran.get("message") or ran.get("status") or ran.get("signal")
        return str(ran.get("stdout")).encode(errors="replace"), str(told)

    def _run(self, job: Run, language: str, text: str, seconds: float) -> Ran:
        memory = job.limits.memory_mb << 20
        files = [{"content": job.source}]
        answer = self._execute(language, files, text, seconds, run_memory_limit=memory)
        if answer.get("compile"):
            compiled = self._stage(answer, "compile")
            if compiled.get("code") != 0:
                told = compiled.get("stderr") or compiled.get("message") or f"ended by {compiled.get('signal')}"
                return Ran("raised", note=f"CompileError: {_last(told)}")
        ran = self._stage(answer, "run")
        output, took = str(ran.get("stdout") or ""), float(ran.get("wall_time") or 0.0) / 1000
        status, signal = ran.get("status"), ran.get("signal")
        if status == "TO":
            return Ran("timeout", output, f"not done within {seconds:g} s", took)
        if status in ("OL", "EL"):
            return Ran("output", output, str(ran.get("message") or ""), took)
        if signal and float(ran.get("memory") or 0) >= self._NEAR * memory:
            return Ran("memory", output, f"ended by {signal}", took)
        if signal or ran.get("code") != 0:
            note = f"ended by {signal}" if signal else f"exit code {ran.get('code')}: {_last(ran.get('stderr'))}"
            return Ran("exited", output, note, took)
        return Ran("ok", output, "", took)

    def _execute(
        self, language: str, files: list[dict[str, str]], text: str, seconds: float, **limits: int
    ) -> dict[str, Any]:
        milliseconds = math.ceil(seconds * 1000)
        body = {
            "language": language,
            "version": self.versions.get(language, "*"),
            "files": files,
            "stdin": text,
            "run_timeout": milliseconds,
            "run_cpu_time": milliseconds,
            **limits,
        }
        return self._post(body, seconds + _COMPILE_SECONDS)

    def _stage(self, answer: dict[str, Any], name: str) -> dict[str, Any]:
        stage = answer.get(name)
        if not isinstance(stage, dict) or not isinstance(stage.get("stdout"), str):
            raise Unavailable(f"{self.url} answers without a usable {name!r}")
        if stage.get("status") == "XX" or (stage.get("code") is None and stage.get("signal") is None):
            raise Unavailable(f"{self.url} could not run a program: {_last(stage.get('message'))}")
        return stage

    def _advice(self, words: str) -> str:
        if "cannot exceed the configured limit" in words:
            return "; start it with PISTON_RUN_TIMEOUT and PISTON_RUN_CPU_TIME that high"
        if "entity too large" in words:
            return "; it takes requests of 100 kB at most, so this task is not for Piston"
        return ""


def _cut(ran: Ran, most: int) -> Ran:
    """What a run printed, no more than is allowed of it."""
    printed = ran.output.encode("utf-8", "replace")
    if len(printed) <= most:
        return ran
    note = f"it printed {len(printed)} bytes; the most is {most}"
    return replace(ran, ended="output", output=printed[:most].decode("utf-8", "replace"), note=note)


def _words(body: bytes) -> str:
    """What a service says about an error, without its form."""
    text = body.decode(errors="replace")
    try:
        said = json.loads(text)
    except ValueError:
        return text
    return str(said.get("message") or said.get("detail") or text) if isinstance(said, dict) else text


def _last(text: object) -> str:
    """The end of what a service says: where the reason stands."""
    return " ".join(str(text or "").split())[-_NOTE:]
