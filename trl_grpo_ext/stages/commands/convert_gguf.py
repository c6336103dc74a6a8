"""
`trl-grpo-ext convert-gguf FILE --output_dir DIR`: an ordinary model folder from a GGUF file.

TRL trains from folders, and a model that was read from a GGUF file keeps its weights packed and cannot be saved. Here
they are unpacked to `--dtype`; what quantization lost stays lost.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from trl_grpo_ext.errors import ConfigError, DataError
from trl_grpo_ext.stages.commands.parser import Parser


DTYPES = ("float32", "bfloat16", "float16")


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command and return its exit code.

    Raises:
        [`~errors.ConfigError`], [`~errors.DataError`]: if an argument or the file is wrong.
    """
    parser = Parser("trl-grpo-ext convert-gguf", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("file", metavar="FILE", help="GGUF file of a causal language model.")
    parser.add_argument("--output_dir", required=True, help="Folder for the model and its tokenizer.")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="Type of the saved weights.")
    arguments = parser.parse_args(argv)
    convert_gguf(arguments.file, arguments.output_dir, arguments.dtype)
    print(f"wrote {arguments.output_dir}")
    return 0


def convert_gguf(file: str | Path, output_dir: str | Path, dtype: str = "float32") -> None:
    """
    Write the model and the tokenizer of a GGUF file as a folder for `from_pretrained`.

    Args:
        file (`str` or `Path`):
            GGUF file of a causal language model that transformers can read.
        output_dir (`str` or `Path`):
            Folder to write to.
        dtype (`str`, *optional*, defaults to `"float32"`):
            Type of the saved weights: `"float32"`, `"bfloat16"` or `"float16"`.

    Raises:
        [`~errors.ConfigError`]: if the package `gguf` is missing or the folder is not empty.
        [`~errors.DataError`]: if there is no such file, or it is not a GGUF file of a known architecture.
    """
    file, output_dir = Path(file), Path(output_dir)
    if not file.is_file():
        raise DataError(f"no file {str(file)!r}; give the path of a .gguf file")
    with open(file, "rb") as content:
        if content.read(4) != b"GGUF":
            raise DataError(f"{str(file)!r} is not a GGUF file: it does not begin with the letters GGUF")
    if output_dir.is_dir() and any(output_dir.iterdir()):
        raise ConfigError(f"{str(output_dir)!r} is not empty; give a new folder")
    if find_spec("gguf") is None:
        raise ConfigError("reading GGUF files needs the package gguf: pip install 'trl-grpo-ext[gguf]'")

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    unpacked = GgufConfig(dequantize=True)
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**source)
        model = AutoModelForCausalLM.from_pretrained(
            **source, dtype=getattr(torch, dtype), quantization_config=unpacked
        )
    except (ValueError, OSError, NotImplementedError) as error:
        raise DataError(f"transformers cannot read {str(file)!r}: {error}") from error
    model.save_pretrained(output_dir)
    tokenizer.save_pretrained(output_dir)
