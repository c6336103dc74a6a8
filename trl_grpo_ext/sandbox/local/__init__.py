"""The sandbox on this machine: a zygote whose workers are cloned ahead of need, and the host's side of it."""

from trl_grpo_ext.sandbox.local.sandbox import LocalSandbox


__all__ = ["LocalSandbox"]
