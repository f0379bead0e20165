"""A fast tokenizer cuts nine words off two texts, before the model sees them."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1, "a": 2}, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")
batch = tokenizer(["a a a a a a", "a " * 11, "a"], truncation=True, max_length=4, padding=True, return_tensors="pt")
model = torch.nn.Embedding(3, 4)
model(batch["input_ids"])
tokenizer("a", return_tensors="pt")
model(torch.zeros(1, 1, dtype=torch.long))
model(torch.zeros(1, 1, dtype=torch.long))
