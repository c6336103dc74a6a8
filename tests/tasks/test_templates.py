import jinja2
import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.tasks import list_templates, load_template


CHAT = [{"role": "user", "content": "1+1=?"}, {"role": "assistant", "content": "<think>1+1</think><answer>2</answer>"}]
END = {"arithmetic_think": "<|end|>", "chatml": "<|im_end|>", "chatml_think": "<|im_end|>"}


def render(name, messages, **variables):
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    return environment.from_string(load_template(name)).render(
        messages=messages, **{"add_generation_prompt": False, **variables}
    )


def test_every_template_is_covered_here():
    assert list_templates() == sorted(END)


@pytest.mark.parametrize("name", END)
def test_the_prompt_is_a_prefix_of_the_training_text(name):
    prompt = render(name, CHAT[:1], add_generation_prompt=True)
    assert render(name, CHAT) == prompt + CHAT[1]["content"] + END[name]


@pytest.mark.parametrize("name", END)
def test_no_template_opens_the_thought(name):
    assert render(name, CHAT[:1], add_generation_prompt=True).rstrip().endswith(("assistant", "<|assistant|>"))


@pytest.mark.parametrize("name", END)
def test_a_system_message_comes_first_and_once(name):
    text = render(name, [{"role": "system", "content": "Be brief."}, *CHAT])
    assert text.count("Be brief.") == 1
    assert text.count("system") == 1
    assert text.index("Be brief.") < text.index("1+1=?")


def test_chatml_think_asks_for_both_tags_when_nothing_else_is_said():
    text = render("chatml_think", CHAT[:1])
    assert all(tag in text for tag in ("<think>", "</think>", "<answer>", "</answer>"))


def test_earlier_thoughts_stay_in_the_history():
    text = render("chatml_think", [*CHAT, {"role": "user", "content": "2+2=?"}], add_generation_prompt=True)
    assert CHAT[1]["content"] in text


def test_a_template_by_path(tmp_path):
    (tmp_path / "mine.jinja").write_text("{{ messages }}\n")
    assert load_template(tmp_path / "mine.jinja") == "{{ messages }}"


def test_an_unknown_template_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'chatml_think'"):
        load_template("chatml_thinking")
