"""Stage `report`: the page and the figures of the run."""

from trl_grpo_ext.report import build_report
from trl_grpo_ext.stages.stage import Stage


def run(stage: Stage) -> None:
    """Write `report.html` and `figures/` into `out/`."""
    stage.progress(0, 1)
    build_report(stage.dir.parent, out_dir=stage.fresh_out())
    stage.progress(1, 1)
