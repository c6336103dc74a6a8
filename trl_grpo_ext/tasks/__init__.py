"""Datasets turned into prompt rows, chat templates, and the tiny model of the quickstart.

Importing this package imports neither torch nor `datasets`; a task reads its data when its rows are asked for.
"""

from trl_grpo_ext.tasks.chat_templates import list_templates, load_template
from trl_grpo_ext.tasks.task import SPLITS, Task, build_task, list_tasks, register_task


__all__ = [
    "SPLITS",
    "Task",
    "build_task",
    "list_tasks",
    "list_templates",
    "load_template",
    "register_task",
]
