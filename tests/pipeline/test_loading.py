import pytest

from trl_grpo_ext.errors import ConfigError
from trl_grpo_ext.pipeline import load_recipe
from trl_grpo_ext.pipeline.recipe import GrpoStage, SftStage, resolved


def edited(workshop, path, value):
    """The recipe file with the value at a path like `stages.1.train` replaced, or taken out when `value` is `...`."""
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    block = workshop.content
    for part in parents:
        block = block[part]
    if value is ...:
        del block[last]
    elif isinstance(block, list) and last == len(block):
        block.append(value)
    else:
        block[last] = value
    return workshop.write()


def test_a_recipe_loads(workshop):
    recipe = load_recipe(workshop.file)
    assert [stage.id for stage in recipe.stages] == ["data", "cold", "rl", "exam", "page"]
    assert recipe.output_dir == "runs/small"
    assert recipe.seed == 7
    rl = recipe.stage("rl")
    assert isinstance(rl, GrpoStage)
    assert rl.rewards == [{"name": "math"}, {"name": "format", "mode": "gate"}]
    assert recipe.inputs(rl) == {"init_from": recipe.stage("cold"), "data": recipe.stage("data")}
    assert recipe.inputs(recipe.stage("cold"))["init_from"] == recipe.stage("data")  # builds base.from_config
    assert resolved(recipe.stage("exam"))["evaluation"]["k"] == [1, 4]


def test_arguments_take_the_place_of_keys(workshop):
    recipe = load_recipe(workshop.file, output_dir="elsewhere", seed=3)
    assert (recipe.output_dir, recipe.seed) == ("elsewhere", 3)


def test_scientific_notation_without_a_dot_is_a_number(workshop):
    text = workshop.file.read_text().replace("learning_rate: 0.001", "learning_rate: 1e-6")
    workshop.file.write_text(text)
    stage = load_recipe(workshop.file).stage("cold")
    assert isinstance(stage, SftStage)
    assert stage.train["learning_rate"] == 1e-6


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("nmae", "x", r"nmae: unknown key 'nmae'; did you mean 'name'"),
        ("version", 2, r"version is 2, this package reads `version: 1`"),
        ("name", ..., r"name is missing"),
        ("name", "a/b", r"name: 'a/b' becomes part of a path"),
        ("seed", "7", r"seed: expected int, got '7' \(str\)"),
        ("seed", True, r"seed: expected int, got True"),
        ("output_dir", "runs/${date}", r"output_dir: .*only \$\{name\}"),
        ("template", "chatml_thin", r"'chatml_thin'; did you mean 'chatml_think'"),
        ("seed", -1, r"seed: -1 is out of range"),
        ("stages.0.task_params", {"digits": "abc"}, r"stages\[0\]\.task_params: .*'abc'"),
        ("stages.1.train.learning_rate", float("nan"), r"learning_rate: nan is not a finite number above 0"),
        ("stages.2.train.max_steps", -6, r"max_steps: -6 is not above 0"),
        ("stages.0.task_params", {"digit": 2}, r"stages\[0\]\.task_params: .*digit"),
        ("stages.1.train.save_total_limit", 1, r"save_total_limit: 1 deletes the last checkpoint"),
        ("stages.3.rewards", ["math", "length"], r"stages\[3\]\.rewards: .*takes math, code, format, not 'length'"),
        ("accelerate", "cpuu", r"stages\[1\]\.accelerate: .*'cpuu'; did you mean 'cpu'"),
        ("base", {}, r"base: give either `model`"),
        ("base", {"model": "a/b", "from_config": {}}, r"base: give either `model`"),
        ("base", {"from_config": {}, "revision": "0" * 40}, r"base\.revision: only a `model`"),
        ("base", {"modle": "a/b"}, r"base\.modle: unknown key 'modle'; did you mean 'model'"),
        ("base", "a/b", r"base: expected a mapping, got 'a/b'"),
        ("stages", [], r"stages: expected a list"),
        ("stages.0", "data", r"stages\[0\]: expected a mapping"),
        ("stages.0.kind", "prepair", r"stages\[0\]\.kind: unknown stage kind 'prepair'; did you mean 'prepare'"),
        ("stages.0.task", "arithmetics", r"stages\[0\]\.task: unknown task 'arithmetics'; did you mean 'arithmetic'"),
        ("stages.0.task", ..., r"stages\[0\]\.task is missing"),
        ("stages.0.sizes", {"sftt": 1}, r"stages\[0\]\.sizes\.sftt: unknown key 'sftt'; did you mean 'sft'"),
        ("stages.0.sizes", {"sft": -1}, r"stages\[0\]\.sizes: a number of rows is negative"),
        ("stages.1.id", "data", r"stages\[1\]\.id: 'data' is the id of an earlier stage"),
        ("stages.1.id", "base", r"stages\[1\]\.id: 'base'; expected"),
        ("stages.1.id", "a-b", r"stages\[1\]\.id: 'a-b'; expected"),
        ("stages.1.init_from", "cold", r"stages\[1\]\.init_from: stage 'cold' names itself"),
        ("stages.1.init_from", "rl", r"stages\[1\]\.init_from: stage 'rl' comes later"),
        ("stages.1.init_from", "data", r"'data' is a stage of kind prepare, expected sft or grpo"),
        ("stages.1.init_from", "bsae", r"unknown stage 'bsae'; did you mean 'base'"),
        ("stages.2.data", "cold", r"stages\[2\]\.data: 'cold' is a stage of kind sft, expected prepare"),
        ("stages.2.data", "base", r"stages\[2\]\.data: unknown stage 'base'"),
        ("stages.2.learning_rate", 1e-6, r"stages\[2\]\.learning_rate: 'learning_rate' belongs under `train:`"),
        ("stages.2.advantage", "grpo", r"stages\[2\]\.advantage: 'advantage' belongs under `train:`"),
        ("stages.2.train.rewards", [], r"stages\[2\]\.train\.rewards: 'rewards' belongs to the stage"),
        ("stages.2.train.lerning_rate", 1e-6, r"stages\[2\]\.train\.lerning_rate: .*did you mean 'learning_rate'"),
        ("stages.2.train.learning_rate", "fast", r"stages\[2\]\.train\.learning_rate: expected float, got 'fast'"),
        ("stages.2.train.bf16", "yes please", r"stages\[2\]\.train\.bf16: expected bool"),
        ("stages.2.train.output_dir", "x", r"stages\[2\]\.train\.output_dir: the pipeline sets it"),
        ("stages.2.train.seed", 1, r"stages\[2\]\.train\.seed: the pipeline sets it: set `seed` of the recipe"),
        ("stages.2.train.advantage", "rlooo", r"train\.advantage: unknown advantage 'rlooo'; did you mean 'rloo'"),
        ("stages.1.train.advantage", "rloo", r"stages\[1\]\.train\.advantage: unknown key"),  # sft has none
        ("stages.2.train.scale_rewards", "none", r"train\.scale_rewards: 'none' has no effect.*dr_grpo"),
        ("stages.2.train.num_generations", 3, r"stages\[2\]\.train: num_generations=3 .* would fit: 2, 4"),
        ("stages.2.train.per_device_train_batch_size", 0, r"0 is not above 0"),
        ("stages.2.train.generation_batch_size", 6, r"generation_batch_size=6 is no multiple of"),
        ("stages.2.rewards", [], r"stages\[2\]\.rewards: a grpo stage needs at least one reward"),
        ("stages.2.rewards", ["maths"], r"stages\[2\]\.rewards\[0\]: .*'maths'; did you mean 'math'"),
        ("stages.2.rewards", ["math", {"name": "format", "wieght": 1}], r"stages\[2\]\.rewards\[1\]: .*weight"),
        ("stages.2.rewards", [{"name": "math", "params": {"zzz": 1}}], r"stages\[2\]\.rewards\[0\]: .*zzz"),
        ("stages.2.rewards", [3], r"stages\[2\]\.rewards\[0\]: expected a name or a mapping"),
        (
            "stages.3.evaluation.k",
            [1, 8],
            r"stages\[3\]\.evaluation: k is \[1, 8\]; .* n_samples, 4",
        ),
        ("stages.3.evaluation.temperature", 0, r"stages\[3\]\.evaluation: temperature is 0"),
        ("stages.4.data", "data", r"stages\[4\]\.data: unknown key 'data'"),
    ],
)
def test_a_mistake_is_named_with_its_place(workshop, path, value, message):
    file = edited(workshop, path, value)
    with pytest.raises(ConfigError, match=message) as caught:
        load_recipe(file)
    assert str(file) in str(caught.value)


def test_options_of_the_advantage_are_taken_as_yaml_yields_them(workshop):
    file = edited(workshop, "stages.2.train.reward_shaping", ["shorterbetter", {"name": "kimi_length", "weight": 0.5}])
    for option, value in (("advantage_kwargs", {"eps": 1e-6}), ("advantage_inputs", {"metric": "lengths"})):
        file = edited(workshop, f"stages.2.train.{option}", value)
    assert load_recipe(file).stages[2].train["reward_shaping"][1] == {"name": "kimi_length", "weight": 0.5}


def test_a_base_to_build_needs_a_prepare_stage_first(workshop):
    workshop.content["stages"].insert(0, {"id": "early", "kind": "sft", "init_from": "base", "data": "data"})
    with pytest.raises(ConfigError, match=r"stages\[0\]\.data: stage 'data' comes later"):
        load_recipe(workshop.write())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no recipe: expected a mapping"),
        ("a: [1", "is no valid YAML"),
        ("version: 1\nname: a\nname: b\n", "line 3: key 'name' is given twice"),
    ],
)
def test_a_file_that_is_no_recipe(tmp_path, text, message):
    file = tmp_path / "recipe.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(file)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        load_recipe(tmp_path / "none.yaml")


def test_batches_count_the_processes_of_the_accelerate_config(workshop):
    (workshop.folder / "two.yaml").write_text("num_processes: 2\n")
    workshop.content["stages"][2]["accelerate"] = "two.yaml"  # found beside the recipe
    workshop.content["stages"][2]["train"]["num_generations"] = 8
    load_recipe(workshop.write())
    workshop.content["stages"][2]["train"]["num_generations"] = 16
    with pytest.raises(ConfigError, match="processes=2"):
        load_recipe(workshop.write())


def test_an_accelerate_config_with_a_wrong_number_of_processes(workshop):
    (workshop.folder / "odd.yaml").write_text("num_processes: many\n")
    workshop.content["stages"][2]["accelerate"] = "odd.yaml"
    with pytest.raises(ConfigError, match="num_processes is 'many'"):
        load_recipe(workshop.write())


@pytest.mark.parametrize("text", ["name: 2020-13-45", "name: !!int abc", "name: " + "[" * 3000, "seed: " + "9" * 5000])
def test_a_value_that_yaml_itself_cannot_read_is_no_traceback(workshop, text):
    workshop.file.write_text(text)
    with pytest.raises(ConfigError):
        load_recipe(workshop.file)


def test_a_template_that_is_no_text_is_named(workshop):
    binary = workshop.folder / "template.jinja"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read as a chat template"):
        load_recipe(edited(workshop, "template", str(binary)))
