"""The commands of `trl-grpo-ext` that load models; the command line imports one of them when it is called."""
