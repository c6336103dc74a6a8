"""SandboxFusion and Piston, as far as the package uses them, as a server for tests.

Programs are run by plain processes of this machine, without any isolation. What the services check, cut off and answer
is what their sources say: see `trl_grpo_ext.sandbox.remote`.
"""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


_COMMANDS = {"python": [sys.executable], "bash": ["bash"], "cpp": None, "c++": None}
_STALLS_AT = 192 << 10  # 128 kB in the reader's buffer, 64 kB in the pipe


class Service:
    """
    A server on a free port.

    Attributes:
        requests: Bodies of the requests so far.
        mishaps: What to do instead of answering, the next first: `"500"`, `"429"`, `"hang"`, `"garbage"`,
            `"truncated"`, `"closed"`, `"empty"`, `"half"`.
    """

    def __init__(self, output_max_size: int = 4 << 20, most_milliseconds: int = 600_000):
        self.output_max_size = output_max_size
        self.most_milliseconds = most_milliseconds
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.mishaps: list[str] = []
        self.answers: dict[str, Callable[[dict], tuple[int, dict]]] = {
            "/run_code": self._fusion,
            "/api/v2/execute": self._piston,
        }
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(service: Any) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *arguments: Any) -> None:
                pass

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                mishap = service.mishaps.pop(0) if service.mishaps else ""
                if mishap == "closed":
                    self.connection.close()
                    return
                if mishap == "hang":
                    time.sleep(3)
                    return
                if mishap in ("500", "429"):
                    return self._say(int(mishap), b"busy")
                if mishap == "garbage":
                    return self._say(200, b"<html>it works</html>")
                if mishap == "empty":
                    return self._say(200, b"{}")
                body = json.loads(data)
                service.requests.append(body)
                service.headers.append(dict(self.headers))
                status, answer = service.answers[self.path](body)
                if mishap == "half":  # the program's answer is cut off, the service's is whole
                    _cut(answer)
                text = json.dumps(answer).encode()
                if mishap == "truncated":
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text[: len(text) // 2])
                    return
                self._say(status, text)

            def _say(self, status: int, text: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                with contextlib.suppress(BrokenPipeError):
                    self.wfile.write(text)

        return Handler

    # -------------------------------------------------------------------------------------------------- SandboxFusion

    def _fusion(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        allowed = ("python", "cpp", "nodejs", "bash", "rust")
        if body["language"] not in allowed or not isinstance(body["code"], str):
            return 422, {"detail": [{"loc": ["body", "language"], "msg": "Input should be 'python', 'cpp' or …"}]}
        compiled = None
        with tempfile.TemporaryDirectory() as folder:
            for name, content in body.get("files", {}).items():
                Path(folder, name).write_bytes(base64.b64decode(content))
            program = Path(folder, "program.py" if body["language"] == "python" else "program.cpp")
            program.write_text(body["code"], errors="surrogateescape")
            command = _COMMANDS[body["language"]]
            if command is None:
                done, command = _compile(program)
                compiled = _fusion_stage(done, 0.1)
            ran = None
            if compiled is None or compiled["return_code"] == 0:
                begun = time.time()
                done = _process(
                    [*command, str(program)],
                    folder,
                    body.get("stdin") or "",
                    body.get("run_timeout", 10),
                    most=_STALLS_AT,
                    stalls=True,
                )
                ran = _fusion_stage(done, time.time() - begun)
            fetched = {
                name: base64.b64encode(Path(folder, name).read_bytes()).decode()
                for name in body.get("fetch_files", [])
                if Path(folder, name).exists()
            }
        stages = [stage for stage in (compiled, ran) if stage]
        well = all(stage["status"] == "Finished" and stage["return_code"] == 0 for stage in stages)
        status = "Success" if well else "Failed"
        answer = {"status": status, "message": "", "compile_result": compiled, "run_result": ran}
        return 200, {**answer, "executor_pod_name": None, "files": fetched}

    # --------------------------------------------------------------------------------------------------------- Piston

    def _piston(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not isinstance(body.get("version"), str):
            return 400, {"message": "version is required as a string"}
        if body["language"] not in ("python", "c++", "bash"):
            return 400, {"message": f"{body['language']}-{body['version']} runtime is unknown"}
        for name in ("run_timeout", "run_cpu_time"):
            if body.get(name, 0) > self.most_milliseconds:
                return 400, {"message": f"{name} cannot exceed the configured limit of {self.most_milliseconds}"}
        answer: dict[str, Any] = {"language": body["language"], "version": "3.11.0"}
        with tempfile.TemporaryDirectory() as folder:
            for index, file in enumerate(body["files"]):
                content = file["content"]
                data = base64.b64decode(content) if file.get("encoding") == "base64" else content.encode()
                Path(folder, file.get("name", f"file{index}.code")).write_bytes(data)
            program = Path(folder, body["files"][0].get("name", "file0.code"))
            command = _COMMANDS[body["language"]]
            if command is None:
                done, command = _compile(program)
                answer["compile"] = self._piston_stage(done, 0.1)
            if "compile" not in answer or answer["compile"]["code"] == 0:
                begun = time.time()
                done = _process(
                    [*command, str(program)],
                    folder,
                    body.get("stdin", ""),
                    body.get("run_timeout", 3000) / 1000,
                    most=self.output_max_size,
                )
                answer["run"] = self._piston_stage(done, time.time() - begun)
        return 200, {**answer, "run": answer.get("run", answer.get("compile"))}

    def _piston_stage(self, done: "_Done", seconds: float) -> dict[str, Any]:
        status = "TO" if done.late else "OL" if done.cut else "SG" if done.code < 0 else "RE" if done.code else None
        killed = signal.Signals(-done.code).name if done.code < 0 else None
        output = "" if done.cut else done.output
        return {
            "stdout": output,
            "stderr": done.errors,
            "output": output + done.errors,
            "code": None if done.late or done.cut or killed else done.code,
            "signal": "SIGKILL" if done.late or done.cut else killed,
            "memory": 9_000_000,
            "message": "stdout length exceeded" if done.cut else "Time limit exceeded" if done.late else None,
            "status": status,
            "cpu_time": 10,
            "wall_time": seconds * 1000,
        }


class _Done:
    def __init__(self, code: int, output: str, errors: str, late: bool, cut: bool):
        self.code, self.output, self.errors, self.late, self.cut = code, output, errors, late, cut


def _process(command: list[str], folder: str, text: str, seconds: float, most: int, stalls: bool = False) -> _Done:
    environment = {"PATH": os.environ["PATH"], "HOME": folder, "SECRET_OF_THE_SERVICE": "1"}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        given.write(text.encode(errors="surrogateescape"))
        given.seek(0)
        process = subprocess.Popen(
            command, stdin=given, stdout=printed, stderr=errors, cwd=folder, env=environment, start_new_session=True
        )
        late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        errors.seek(0)
        output = printed.read().decode(errors="replace")
        cut = len(output) > most
        return _Done(
            process.returncode, output[:most], errors.read().decode(errors="replace"), late or (cut and stalls), cut
        )


def _compile(program: Path) -> tuple[_Done, list[str]]:
    done = subprocess.run(
        ["g++", "-x", "c++", str(program), "-o", str(program.parent / "out")], capture_output=True, text=True
    )
    return _Done(done.returncode, done.stdout, done.stderr, False, False), [str(program.parent / "out")]


def _fusion_stage(done: _Done, seconds: float) -> dict[str, Any]:
    return {
        "status": "TimeLimitExceeded" if done.late else "Finished",
        "execution_time": seconds,
        "return_code": None if done.late else done.code,
        "stdout": done.output,
        "stderr": done.errors,
    }


def _cut(answer: dict[str, Any]) -> None:
    for name, content in answer.get("files", {}).items():
        answer["files"][name] = base64.b64encode(base64.b64decode(content)[:-40]).decode()
    if answer.get("run", {}).get("stdout"):
        answer["run"]["stdout"] = answer["run"]["stdout"][:-40]


@contextlib.contextmanager
def service(**options: Any) -> Iterator[Service]:
    """A running service."""
    running = Service(**options)
    try:
        yield running
    finally:
        running.close()
