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
    loader = local_loader(script.dataset_name)
    if loader is None:
        return

    from trl.scripts.utils import DatasetConfig

    mixture.datasets = [DatasetConfig(path=loader, data_files=script.dataset_name)]
    script.dataset_name = None
    script.dataset_train_split = "train"


def local_loader(name: str) -> str | None:
    """
    The loader of `datasets` that reads a local file; `None` for a folder or a Hub id.

    Raises:
        [`~errors.DataError`]: if the file is of another type, or the name looks like a path to nothing.
    """
    path = Path(name)
    if path.is_dir():
        return None
    if not path.is_file():
        if path.suffix in _LOADERS or name.startswith((".", "/", "~")):
            raise DataError(f"no dataset file {name!r}; give an existing file, a folder or a Hub id")
        return None
    if path.suffix not in _LOADERS:
        raise DataError(f"{name!r} is no dataset file; expected one of {', '.join(_LOADERS)}")
    return _LOADERS[path.suffix]


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


def load_named(name: str, config: str | None = None) -> "DatasetDict":
    """
    Load a dataset without TRL, which takes seconds to import.

    Args:
        name (`str`):
            A Hub id, a local file, or a local folder.
        config (`str`, *optional*):
            Configuration of a dataset that has several.

    Raises:
        [`~errors.ConfigError`]: if a configuration of a file is asked for.
        [`~errors.DataError`]: if it cannot be loaded.
    """
    loader = local_loader(name)
    if loader and config:
        raise ConfigError(f"{name!r} is a file, which has no configuration {config!r}")

    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    try:
        return load_dataset(loader, data_files=name) if loader else load_dataset(name, name=config)
    except (DatasetsError, OSError, ValueError) as error:
        because = error.__cause__ or error  # what a file holds, rather than that it could not be read
        raise DataError(f"cannot load the dataset {name!r}: {' '.join(str(because).split())}") from error
    except StopIteration as error:  # what the JSON loader makes of a file of no bytes
        raise DataError(f"the dataset {name!r} has no rows") from error


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
