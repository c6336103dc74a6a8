"""The private parts of the installed TRL are where the trainer expects them, and a move is named."""

import pytest
from trl import GRPOTrainer

from trl_grpo_ext.errors import UpstreamError
from trl_grpo_ext.trainer.seams import OUTPUT_KEYS, check_attributes, check_methods, check_output


def test_installed_trl_has_the_methods():
    check_methods(GRPOTrainer)


def test_a_changed_signature_is_named():
    class Moved(GRPOTrainer):
        def _compute_loss(self, model, inputs, extra): ...

    with pytest.raises(UpstreamError, match=r"GRPOTrainer\._compute_loss has changed.*tested with: 1\.16\.0"):
        check_methods(Moved)


def test_a_missing_method_is_named():
    with pytest.raises(UpstreamError, match=r"GRPOTrainer\._prepare_inputs has changed.*found None"):
        check_methods(object)


def test_a_missing_attribute_is_named():
    with pytest.raises(UpstreamError, match=r"GRPOTrainer\._metrics"):
        check_attributes(object.__new__(GRPOTrainer))


def test_a_missing_output_key_is_named():
    complete = dict.fromkeys(OUTPUT_KEYS)
    check_output(complete)
    del complete["advantages"]
    with pytest.raises(UpstreamError, match="'advantages' in its output"):
        check_output(complete)
