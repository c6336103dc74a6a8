"""The KL penalty: TRL's own when it is k3 in the loss, and the chosen one elsewhere."""

import pytest
import torch

from tests.trainer.runs import arguments, history, parity_reward, train, weights
from trl_grpo_ext import GroupRelativeConfig, GroupRelativeTrainer
from trl_grpo_ext.advantages.kl import k1, k2, k3
from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.trainer.kl import KLCoefficient, importance_weights, sequence_kl


class ReplacedK3(GroupRelativeTrainer):
    """k3, but computed on the way that other estimators take."""

    def _loss_beta(self, inputs, beta):
        return KLCoefficient(beta, lambda: self._loss_kl(inputs))


@pytest.mark.tiny
@pytest.mark.parametrize("corrected", [False, True], ids=["plain", "bias_corrected"])
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"])
def test_replaced_k3_is_the_inline_one(tiny_model, arithmetic_rows, tmp_path, monkeypatch, loss_type, corrected):
    overrides = {"loss_type": loss_type, "use_bias_correction_kl": corrected, "num_iterations": 2, "max_steps": 4}
    if loss_type == "luspo":
        overrides["importance_sampling_level"] = "sequence"
    inline = train(True, tiny_model, arithmetic_rows, parity_reward, tmp_path, **overrides)
    monkeypatch.setattr("tests.trainer.runs.GroupRelativeTrainer", ReplacedK3)
    replaced = train(True, tiny_model, arithmetic_rows, parity_reward, tmp_path, **overrides)
    assert any(entry["kl"] > 0 for entry in history(inline))
    for expected, got in zip(history(inline), history(replaced), strict=True):
        assert got == pytest.approx(expected, rel=1e-6, abs=1e-9)
    for name, expected in weights(inline).items():
        torch.testing.assert_close(weights(replaced)[name], expected, rtol=1e-6, atol=1e-8, msg=name)


@pytest.mark.tiny
def test_other_estimators_change_the_run(tiny_model, arithmetic_rows, tmp_path):
    runs = [
        history(
            train(True, tiny_model, arithmetic_rows, parity_reward, tmp_path, beta=5.0, **{"max_steps": 4, **options})
        )
        for options in (
            {"kl_estimator": "k3"},
            {"kl_estimator": "k2"},
            {"kl_estimator": "k1", "allow_k1_in_loss": True},
            {"kl_estimator": "k1", "kl_in": "reward"},
        )
    ]
    norms = [run[-1]["grad_norm"] for run in runs]
    assert len(set(norms)) == len(norms)


def test_coefficient_puts_the_estimate_in_the_place_of_k3():
    logps = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    ref = torch.tensor([[-1.5, -1.0]])
    coefficient = KLCoefficient(0.1, lambda: k2(logps, ref))
    assert coefficient != 0.0
    term = coefficient * k3(logps, ref)
    torch.testing.assert_close(term, 0.1 * torch.tensor([[0.125, 0.5]]))
    term.sum().backward()
    torch.testing.assert_close(logps.grad, 0.1 * (logps.detach() - ref))


def test_importance_weights_by_level():
    logps = torch.tensor([[-1.0, -2.0, -9.0]])
    old = torch.tensor([[-1.5, -1.0, 0.0]])
    mask = torch.tensor([[1, 1, 0]])
    torch.testing.assert_close(importance_weights(logps, old, mask, "token")[0, :2], torch.tensor([0.5, -1.0]).exp())
    torch.testing.assert_close(importance_weights(logps, old, mask, "sequence"), torch.tensor([[-0.25]]).exp())
    torch.testing.assert_close(importance_weights(logps, None, mask, "token"), torch.ones(1, 3))


def test_sequence_kl_leaves_out_what_does_not_count():
    kl = torch.tensor([[0.5, 0.25, torch.nan]])
    assert sequence_kl(kl, torch.tensor([[True, True, False]])).tolist() == [0.75]


@pytest.mark.parametrize(
    ("estimator", "corrected", "reverse"),
    [(k2, False, True), (k3, True, True), (k1, True, True), (k3, False, False)],
)
def test_expected_gradient_over_all_outcomes(estimator, corrected, reverse):
    """As `kl_estimator` says: that of KL(policy || reference), and for plain k3 that of KL(reference || policy)."""
    logits = torch.tensor([0.3, -1.0, 0.7, 0.1], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([-0.2, 0.4, 0.5, -0.9], dtype=torch.float64).log_softmax(dim=0)
    logps = logits.log_softmax(dim=0)
    term = estimator(logps, ref)
    if corrected:
        ones = torch.ones(4, 1)
        term = term * importance_weights(logps.unsqueeze(1), None, ones, "token").squeeze(1)
    (got,) = torch.autograd.grad((logps.detach().exp() * term).sum(), logits, retain_graph=True)
    divergence = (logps.exp() * (logps - ref)).sum() if reverse else (ref.exp() * (ref - logps)).sum()
    (expected,) = torch.autograd.grad(divergence, logits)
    torch.testing.assert_close(got, expected)


def test_k1_in_the_loss_pulls_nowhere_on_average():
    logits = torch.tensor([0.3, -1.0, 0.7], dtype=torch.float64, requires_grad=True)
    logps = logits.log_softmax(dim=0)
    (gradient,) = torch.autograd.grad((logps.detach().exp() * k1(logps, torch.zeros(3))).sum(), logits)
    assert gradient.abs().max() < 1e-15


def test_k2_with_the_correction_is_warned_about(tmp_path, caplog):
    GroupRelativeConfig(**arguments(tmp_path, beta=0.1, kl_estimator="k2", use_bias_correction_kl=False))
    assert not caplog.records
    GroupRelativeConfig(**arguments(tmp_path, beta=0.1, kl_estimator="k2"))
    assert "use_bias_correction_kl=False" in caplog.text


@pytest.mark.tiny
def test_kl_in_the_reward_is_subtracted_before_advantages(tiny_model, arithmetic_rows, tmp_path):
    from datasets import Dataset

    options = {"kl_in": "reward", "kl_estimator": "k1", "beta": 0.5, "advantage": "dr_grpo"}
    trainer = GroupRelativeTrainer(
        model=tiny_model,
        reward_funcs=parity_reward,
        args=GroupRelativeConfig(**arguments(tmp_path, **options)),
        train_dataset=Dataset.from_list(arithmetic_rows),
    )
    torch.manual_seed(0)
    for parameter in trainer.model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    output = trainer._generate_and_score_completions([arithmetic_rows[i // 4] for i in range(8)])
    logps, _, _ = trainer._get_per_token_logps_and_entropies(
        trainer.model,
        torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1),
        torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1),
        output["completion_ids"].size(1),
    )
    kl = ((logps - output["ref_per_token_logps"]) * output["completion_mask"]).sum(dim=1)
    assert kl.abs().max() > 1e-3
    rewards = (trainer._reward_matrix[:, 0] - 0.5 * kl).view(2, 4)
    expected = (rewards - rewards.mean(dim=1, keepdim=True)).flatten()
    torch.testing.assert_close(output["advantages"], expected.detach(), rtol=1e-4, atol=1e-5)
    # In the loss there is no KL term left.
    assert trainer._loss_beta(output, trainer.beta) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kl_estimator": "k1", "beta": 0.1}, "expected gradient of k1 is zero"),
        ({"kl_estimator": "k4", "beta": 0.1}, "expected one of k1, k2, k3"),
        ({"kl_in": "advantage", "beta": 0.1}, "expected one of loss, reward"),
        ({"kl_estimator": "k2"}, "no effect with beta=0"),
        ({"kl_in": "reward"}, "no effect with beta=0"),
        ({"kl_in": "reward", "beta": 0.1, "advantage": "gdpo"}, "compares several"),
        ({"advantage": "reinforce_pp_kl", "beta": 0.1}, "kl_in='reward' and kl_estimator='k1'"),
        (
            {
                "advantage": "reinforce_pp_kl",
                "advantage_kwargs": {"kl_coef": 0.2},
                "beta": 0.1,
                "kl_in": "reward",
                "kl_estimator": "k1",
            },
            "given twice",
        ),
    ],
)
def test_combinations_that_make_no_sense_are_refused(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        GroupRelativeConfig(**arguments(tmp_path, **{"beta": 0.0, **options}))
