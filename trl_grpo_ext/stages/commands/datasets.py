"""Datasets of the training commands: a Hub id, a local file or a local folder, and whether it holds what is needed."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.errors import ConfigError, DataError


if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict
    from trl import DatasetMixtureConfig, ScriptArguments

_LOADERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}


def use_local_file(script: "ScriptArguments", mixture: "DatasetMixtureConfig") -> None:
    """
    Rewrite `--dataset_name FILE` as the mixture of that one file, which TRL's own loader understands.

    Raises:
        [`~errors.ConfigError`]: if no dataset is given.
        [`~errors.DataError`]: if the name is that of a file of another type, or looks like a path to nothing.
    """
    if mixture.datasets:
        return
    if not script.dataset_name:
        raise ConfigError("no dataset given; use --dataset_name with a Hub id, a .jsonl file or a folder")
    path = Path(script.dataset_name)
    if path.is_dir():
        return
    if not path.is_file():
        if path.suffix in _LOADERS or script.dataset_name.startswith((".", "/", "~")):
            raise DataError(f"no dataset file {script.dataset_name!r}; give an existing file, a folder or a Hub id")
        return
    if path.suffix not in _LOADERS:
        raise DataError(f"{script.dataset_name!r} is no dataset file; expected one of {', '.join(_LOADERS)}")

    from trl.scripts.utils import DatasetConfig

    mixture.datasets = [DatasetConfig(path=_LOADERS[path.suffix], data_files=str(path))]
    script.dataset_name = None
    script.dataset_train_split = "train"


def load(script: "ScriptArguments", mixture: "DatasetMixtureConfig") -> "DatasetDict":
    """
    Load the dataset that the arguments name.

    Raises:
        [`~errors.DataError`]: if it cannot be loaded.
    """
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError
    from trl import get_dataset

    use_local_file(script, mixture)
    try:
        if mixture.datasets:
            return get_dataset(mixture)
        return load_dataset(script.dataset_name, name=script.dataset_config, streaming=script.dataset_streaming)
    except (DatasetsError, OSError, ValueError) as error:
        raise DataError(f"cannot load the dataset {script.dataset_name or mixture.datasets!r}: {error}") from error


def split(dataset: "DatasetDict", name: str) -> "Dataset":
    """
    One split of a dataset.

    Raises:
        [`~errors.DataError`]: if there is none of that name.
    """
    if name not in dataset:
        raise DataError(f"the dataset has no split {name!r}; it has {', '.join(map(repr, dataset))}")
    return dataset[name]


def check_columns(columns: "list[str] | None", needed: dict[str, str]) -> None:
    """
    Check the columns of a dataset.

    Args:
        columns (`list[str]`, *optional*):
            Columns it has; `None` (a stream that does not say) passes.
        needed (`dict[str, str]`):
            Columns it must have, each with the reason.

    Raises:
        [`~errors.DataError`]: if one is missing; the message says what it is for and shows the columns there are.
    """
    for column, reason in needed.items():
        if columns is not None and column not in columns:
            raise DataError(f"the dataset has no column {column!r} ({reason}); its columns are {sorted(columns)}")


def has_rows(dataset: Any) -> bool:
    """Whether a dataset has rows; a stream, whose length is unknown, counts as having some."""
    return not hasattr(dataset, "__len__") or len(dataset) > 0
