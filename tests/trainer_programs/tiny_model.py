"""A random model whose tokens are whole programs, so that a few of its answers are right from the first step on."""

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

RIGHT = "\n```python\nprint(int(input()) * 2)\n```\n"
WRONG = "\n```python\nprint(8)\n```\n"
BROKEN = "\n```python\nprint(\n```\n"
OPEN = "\n```python\nx = 1"
TOKENS = ["<pad>", "<|end|>", "<unk>", RIGHT, WRONG, BROKEN, OPEN, "Double ", "it: ", "a ", "number "]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word of the prompts, and one a program."""
    tokenizer = Tokenizer(models.WordLevel({token: index for index, token in enumerate(TOKENS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+\W*"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<|end|>", unk_token="<unk>", padding_side="left"
    )


def make_model() -> LlamaForCausalLM:
    """Random weights, from a fixed seed."""
    torch.manual_seed(7)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    special = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(TOKENS), **sizes, **special))
