"""What the processes of a pipeline run: one stage each, started as `python -m trl_grpo_ext.stages --stage_dir DIR`."""
