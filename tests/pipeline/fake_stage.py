"""
Stands for a stage: does what the file `behaviour-<id>` beside the run says, and keeps the contract otherwise.

Most behaviours need the standard library alone, so that hundreds of these start in seconds (`python -S`).
"""

import fcntl
import json
import os
import signal
import site
import sys
import time
from pathlib import Path


def main() -> int:
    stage_dir = Path(sys.argv[1])
    workshop = stage_dir.parent.parent
    record = json.loads((stage_dir / "stage.json").read_text())
    behaviour_file = workshop / f"behaviour-{record['id']}"
    behaviour = behaviour_file.read_text() if behaviour_file.exists() else "finish"
    if behaviour in ("hang", "stubborn"):
        watch_driver()
    with open(stage_dir / ".lock", "w") as lock, open(workshop / "starts.txt", "a") as starts:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        starts.write(f"{record['id']} {os.getpid()}\n")
        starts.flush()
        write(stage_dir / "progress.json", {"step": 1, "total": 3, "text": "reward [0.5]"})
        checkpoint = stage_dir / "checkpoints" / "checkpoint-1"
        checkpoint.mkdir(parents=True, exist_ok=True)
        if behaviour == "stubborn":
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(f"stage {record['id']} behaves: {behaviour}", flush=True)
        if behaviour == "checkpoint_and_die":
            (checkpoint / "COMPLETE").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "user_mistake":
            write(stage_dir / "error.json", {"kind": "user", "message": "no such model", "traceback": "…"})
            return 2
        if behaviour == "crash":
            write(stage_dir / "error.json", {"kind": "crash", "message": "ZeroDivisionError: x", "traceback": "…"})
            return 1
        if behaviour == "silent_crash":
            print("the last words")
            return 7
        if behaviour == "no_done":
            return 0
        if behaviour in ("hang", "stubborn"):
            time.sleep(120)
        out = stage_dir / "out"
        out.mkdir(exist_ok=True)
        write(out / "result.json", behaviour)
        if record["kind"] == "eval":
            score = {"mean": 0.25, "ci": [0.1, 0.4]}
            write(out / "scores.json", {"greedy": score, "sampled": score, "pass_at_k": {"1": score, "4": score}})
        if record["kind"] == "report":
            (out / "report.html").write_text("<html></html>")
        write(stage_dir / "DONE", {"finished": time.time(), "seconds": 0.1})
    return 0


def watch_driver() -> None:
    site.main()
    from trl_grpo_ext.stages import driver_watch

    driver_watch.watch_driver()


def write(path: Path, content) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(content))
    temporary.rename(path)  # as the real ones do: the driver never sees half of it


if __name__ == "__main__":
    sys.exit(main())
