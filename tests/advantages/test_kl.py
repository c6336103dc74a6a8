"""KL estimators: values, expectations over a categorical policy, gradients, and the ends of the range."""

import math

import pytest
import torch

from trl_grpo_ext.advantages import estimate
from trl_grpo_ext.advantages.kl import k1, k2, k3


GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(5, generator=GENERATOR, dtype=torch.float64)
REF = torch.randn(5, generator=GENERATOR, dtype=torch.float64).log_softmax(0)


def divergence(log_p, log_q):
    return (log_p.exp() * (log_p - log_q)).sum()


@pytest.mark.parametrize("estimator", [k1, k3])
def test_value_averages_to_the_divergence(estimator):
    policy = LOGITS.log_softmax(0)
    torch.testing.assert_close((policy.exp() * estimator(policy, REF)).sum(), divergence(policy, REF))


def mean_gradient(estimator):
    """Expected gradient, by the logits, of the estimator as a term of the loss: samples are not differentiated."""
    logits = LOGITS.clone().requires_grad_()
    policy = logits.log_softmax(0)
    (policy.exp().detach() * estimator(policy, REF)).sum().backward()
    return logits.grad


def true_gradient(function):
    logits = LOGITS.clone().requires_grad_()
    function(logits.log_softmax(0)).backward()
    return logits.grad


def test_k1_in_the_loss_has_no_gradient():
    torch.testing.assert_close(mean_gradient(k1), torch.zeros_like(LOGITS))


def test_k2_has_the_gradient_of_the_divergence_from_the_reference():
    torch.testing.assert_close(mean_gradient(k2), true_gradient(lambda policy: divergence(policy, REF)))


def test_k3_has_the_gradient_of_the_reverse_divergence():
    torch.testing.assert_close(mean_gradient(k3), true_gradient(lambda policy: divergence(REF, policy)))


@pytest.mark.parametrize("estimator", [k2, k3])
def test_gradient_is_that_of_the_value(estimator):
    logp = torch.tensor([-3.0, -0.52, -0.5001, -0.5, -0.48, -0.1], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: estimator(x, torch.full_like(x, -0.5)), (logp,))


@pytest.mark.parametrize("difference", [1e-12, -1e-9, 1e-6, -1e-3, 0.0299, 0.03, 0.0301, -0.0301, 0.2, -0.5, 3.0])
def test_k3_to_full_precision(difference):
    d = torch.tensor(difference, dtype=torch.float64)
    # The tail of the exponential series, so that nothing cancels.
    expected = math.fsum((-difference) ** n / math.factorial(n) for n in range(2, 40))
    assert k3(d, torch.zeros_like(d)).item() == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("difference", [-1e4, -100.0, -85.0, 100.0, 1e4])
def test_k3_of_impossible_tokens_is_finite_and_pulls_the_right_way(difference, dtype):
    logp = torch.tensor(difference, dtype=dtype, requires_grad=True)
    value = k3(logp, torch.zeros_like(logp))
    value.backward()
    assert value.isfinite()
    assert value > 0
    assert logp.grad.isfinite()
    assert logp.grad.sign() == math.copysign(1, difference)


@pytest.mark.parametrize("estimator", [k2, k3])
def test_never_negative_and_zero_where_both_agree(estimator):
    logp = torch.linspace(-5, 0, 101, dtype=torch.float64)
    assert (estimator(logp, logp.flip(0)) >= 0).all()
    assert torch.equal(estimator(logp, logp), torch.zeros_like(logp))


@pytest.mark.parametrize("name", ["kl/k1", "kl/k2", "kl/k3"])
def test_unscorable_completions_count_nothing(name):
    extra = {"logp": [[[-1.0, -2.0], [-1.0]]], "ref_logp": [[[-1.5, -2.0], [-3.0]]]}
    skipped, kept = estimate(name, [[None, 1.0]], extra=extra)[0]
    assert skipped == [0.0, 0.0]
    assert kept == [pytest.approx({"kl/k1": 2.0, "kl/k2": 2.0, "kl/k3": math.exp(-2.0) + 1}[name])]
