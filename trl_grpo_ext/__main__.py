"""`python -m trl_grpo_ext`: the command line."""

import sys

from trl_grpo_ext.cli import main


if __name__ == "__main__":
    sys.exit(main())
