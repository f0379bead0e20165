"""A Trainer script as people write it: two steps, an evaluation, a save. It knows nothing of the probe."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

rows = [{"input_ids": torch.arange(8) + i, "labels": torch.arange(8) + i} for i in range(4)]
config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=2)
arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=2, per_device_train_batch_size=2, per_device_eval_batch_size=2,
                              eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2, use_cpu=True,
                              report_to=[], disable_tqdm=True)
trainer = Trainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=rows, eval_dataset=rows)
trainer.train()
