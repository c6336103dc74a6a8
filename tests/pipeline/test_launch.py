import sys

from trl_grpo_ext.pipeline.launch import launch_command


def test_a_single_process(tmp_path):
    config = tmp_path / "one.yaml"
    config.write_text("num_processes: 1\n")
    assert launch_command(config, tmp_path / "01-data") == [
        *(sys.executable, "-m", "accelerate.commands.launch", "--quiet", "--config_file", str(config)),
        *("-m", "trl_grpo_ext.stages", "--stage_dir", str(tmp_path / "01-data")),
    ]


def test_several_processes_take_any_free_port(tmp_path):
    config = tmp_path / "two.yaml"
    config.write_text("num_processes: 2\n")
    command = launch_command(config, tmp_path)
    assert command[command.index("--main_process_port") + 1] == "0"


def test_a_port_that_was_chosen_is_kept(tmp_path):
    config = tmp_path / "two.yaml"
    config.write_text("num_processes: 2\nmain_process_port: 29600\n")
    assert "--main_process_port" not in launch_command(config, tmp_path)
