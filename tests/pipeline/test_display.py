from rich.console import Console

from trl_grpo_ext.files import write_json
from trl_grpo_ext.pipeline.display import show_status, show_summary


def test_scores_without_samples_are_shown(workshop):
    console = Console(record=True, width=100)
    workshop.run()
    scores = {"greedy": {"mean": 0.5, "ci": [0.4, 0.6]}, "sampled": {"mean": None}, "pass_at_k": {"1": {"mean": None}}}
    write_json(workshop.run_dir / "04-exam" / "out" / "scores.json", scores)
    show_summary(console, workshop.run_dir)
    assert "0.500 (0.40–0.60)" in console.export_text()


def test_a_stage_whose_driver_is_gone_is_not_running(workshop):
    workshop.run()
    folder = workshop.run_dir / "03-rl"
    (folder / "DONE").unlink()
    write_json(folder / "stage.json", {"id": "rl", "kind": "grpo", "status": "running", "attempts": []})
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    show_status(console, workshop.run_dir)
    lines = console.export_text().splitlines()
    assert "broken off" in next(line for line in lines if " rl " in line)
    assert "done" in next(line for line in lines if " cold " in line)
