"""The run report: one self-contained page and its figures, made from the run directory alone."""

from trl_grpo_ext.report.page import build_report
from trl_grpo_ext.report.run import summary


__all__ = ["build_report", "summary"]
