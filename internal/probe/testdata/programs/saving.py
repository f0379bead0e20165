"""Saves and loads in the ways that libraries offer."""

import os
import sys

import safetensors.torch
import torch
from transformers import LlamaConfig, LlamaForCausalLM

folder = sys.argv[1]
config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=2)
LlamaForCausalLM(config).save_pretrained(folder)
model = LlamaForCausalLM.from_pretrained(folder)
safetensors.torch.save_file({"a": torch.zeros(2)}, os.path.join(folder, "a.safetensors"))
torch.save({"a": torch.zeros(2)}, os.path.join(folder, "a.pt"))
torch.load(os.path.join(folder, "a.pt"))
