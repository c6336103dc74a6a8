import copy

import pytest

from trl_grpo_ext.pipeline.manifest import config_hash, differences, fingerprint


def marks(workshop, stage_id, control=None):
    recipe = workshop.load()
    return fingerprint(recipe, recipe.stage(stage_id), control)


def test_differences_are_dotted_keys_with_both_values():
    before = {"train": {"a": 1, "b": 2}, "seed": 1}
    now = {"train": {"a": 1, "b": 3, "c": 4}}
    assert differences(before, now) == {"train.b": (2, 3), "train.c": (None, 4), "seed": (1, None)}


def test_the_hash_does_not_depend_on_the_order_of_keys():
    assert config_hash({"a": 1, "b": {"c": 2, "d": 3}}) == config_hash({"b": {"d": 3, "c": 2}, "a": 1})


@pytest.mark.parametrize("key", ["logging_steps", "logging_first_step", "save_steps", "save_total_limit", "report_to"])
def test_keys_that_only_change_what_is_written_down_are_free(workshop, key):
    before = marks(workshop, "rl")
    workshop.content["stages"][2]["train"][key] = {"logging_first_step": True, "report_to": "none"}.get(key, 5)
    assert marks(workshop, "rl") == before


def test_an_edited_local_dataset_makes_the_stage_that_reads_it_stale(workshop, tmp_path):
    folder = tmp_path / "questions"
    folder.mkdir()
    file = folder / "train.jsonl"
    file.write_text('{"question": "1+1?", "answer": "#### 2"}\n')
    workshop.content["stages"][0] |= {"task": "gsm8k", "task_params": {"dataset": str(folder)}}
    before = marks(workshop, "data")
    assert marks(workshop, "data") == before
    file.write_text('{"question": "1+1?", "answer": "#### 3"}\n')
    assert list(differences(before, marks(workshop, "data"))) == ["files.dataset"]


@pytest.mark.parametrize(
    ("stage_id", "path", "value"),
    [
        ("data", ["seed"], 8),
        ("data", ["template"], "{{ messages }}"),
        ("data", ["base", "from_config", "hidden_size"], 16),
        ("data", ["stages", 0, "sizes", "sft"], 5),
        ("cold", ["stages", 1, "train", "learning_rate"], 2e-3),
        ("rl", ["stages", 2, "rewards", 1, "mode"], "add"),
        ("rl", ["stages", 2, "init_from"], "base"),
        ("exam", ["stages", 3, "evaluation", "n_samples"], 5),
    ],
)
def test_what_a_result_depends_on_changes_the_hash(workshop, stage_id, path, value):
    before = config_hash(marks(workshop, stage_id))
    if path == ["template"]:
        template = workshop.folder / "own.jinja"
        template.write_text(value)
        value = str(template)
    block = workshop.content
    for part in path[:-1]:
        block = block[part]
    block[path[-1]] = value
    assert config_hash(marks(workshop, stage_id)) != before


def test_stages_do_not_depend_on_what_only_others_use(workshop):
    before = {stage_id: marks(workshop, stage_id) for stage_id in ("data", "cold", "exam")}
    original = copy.deepcopy(workshop.content)
    workshop.content["stages"][2]["train"]["max_steps"] = 99
    assert {stage_id: marks(workshop, stage_id) for stage_id in before} == before
    workshop.content = original
    assert marks(workshop, "cold", control="shuffled-rewards") == before["cold"]
    assert marks(workshop, "rl", control="shuffled-rewards") != marks(workshop, "rl")


def test_the_number_of_processes_counts_for_training_only(workshop):
    before = {stage_id: marks(workshop, stage_id) for stage_id in ("cold", "exam")}
    (workshop.folder / "two.yaml").write_text("num_processes: 2\n")
    workshop.content["accelerate"] = "two.yaml"
    assert differences(before["cold"], marks(workshop, "cold")) == {"accelerate.num_processes": (1, 2)}
    assert marks(workshop, "exam") == before["exam"]
