"""The toy's tokens and its model: a Llama of a quarter of a million parameters. Needs torch and transformers."""

import re
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from trainer.toy.chains import HEAD, MIDDLE, TAIL

PAD, END, UNKNOWN = "<pad>", "<|end|>", "<unk>"
WORDS = (HEAD, MIDDLE, TAIL, *"0123456789*+=:,;")
TOKENS = (PAD, END, UNKNOWN, *WORDS)


def make_tokenizer() -> Any:
    """One token a digit or sign, and one for each fixed part of a program."""
    tokenizer = Tokenizer(models.WordLevel({token: place for place, token in enumerate(TOKENS)}, unk_token=UNKNOWN))
    # The longer first, or the sign within a part would be taken for itself.
    pattern = "|".join(re.escape(word) for word in sorted(WORDS, key=len, reverse=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, unk_token=UNKNOWN, padding_side="left"
    )


def make_model(seed: int, *, hidden: int = 96, layers: int = 2, heads: int = 4) -> Any:
    """Random weights, from this seed."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=hidden,
        intermediate_size=8 * hidden // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=256,
        pad_token_id=TOKENS.index(PAD),
        eos_token_id=TOKENS.index(END),
        bos_token_id=TOKENS.index(END),
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)
