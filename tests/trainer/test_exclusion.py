"""Denominators without the removed rows, by hand."""

import pytest
import torch

from trl_grpo_ext.trainer.exclusion import loss_weights, mask_rows


def test_row_mean_divides_by_the_rows_kept_in_the_window_over_all_processes():
    kept = torch.tensor([[4, 3], [4, 1]])  # 2 processes, 2 micro-batches of 4 rows
    assert loss_weights(kept, rows=4, window=2, loss_type="grpo") == [16 / 12, 16 / 12]
    assert loss_weights(kept, rows=4, window=1, loss_type="dr_grpo") == [1.0, 8 / 4]


def test_micro_batch_mean_counts_micro_batches_that_still_hold_rows():
    kept = torch.tensor([[4, 0], [1, 4]])
    assert loss_weights(kept, rows=4, window=2, loss_type="bnpo") == [4 / 3, 4 / 3]


def test_an_empty_window_weighs_nothing():
    assert loss_weights(torch.zeros(2, 2, dtype=torch.long), rows=4, window=2, loss_type="grpo") == [0.0, 0.0]


@pytest.mark.parametrize("loss_type", ["dapo", "cispo", "vespo"])
def test_token_losses_are_left_to_num_items_in_batch(loss_type):
    assert loss_weights(torch.tensor([[1, 2]]), rows=4, window=2, loss_type=loss_type) == [1.0, 1.0]


def test_masked_rows_keep_their_attention_and_lose_their_tokens():
    output = {"completion_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}
    tokens = mask_rows(output, torch.tensor([True, False]))
    assert tokens == 2
    assert output["completion_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert output["tool_mask"].tolist() == [[1, 1, 1], [0, 0, 0]]


def test_an_existing_tool_mask_is_kept():
    output = {"completion_mask": torch.ones(2, 2, dtype=torch.long), "tool_mask": torch.tensor([[1, 0], [1, 0]])}
    mask_rows(output, torch.tensor([True, False]))
    assert output["tool_mask"].tolist() == [[1, 0], [0, 0]]
