"""Text generation as people write it; the tokens are made up."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=2, bos_token_id=0, eos_token_id=None, pad_token_id=0)
model = LlamaForCausalLM(config).eval()
prompt = torch.arange(1, 9).reshape(1, 8)
for tokens in (4, 4, 1):
    out = model.generate(prompt, max_new_tokens=tokens, do_sample=False)
print(tuple(out.shape))
