package ggufmodel

import (
	"slices"
	"strings"
)

// known reports whether llama.cpp builds an architecture of that name
// (LLM_ARCH_NAMES in src/llama-arch.cpp). Any other may do more with its tensors
// than they tell.
func known(architecture string) bool {
	names := strings.Fields(`
		afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bert bitnet bloom chameleon chatglm clip codeshell
		cogvlm cohere2 command-r dbrx deci deepseek deepseek2 dots1 dream ernie4_5 ernie4_5-moe exaone exaone4 falcon
		falcon-h1 gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 glm-dsa glm4 glm4moe gpt-oss gpt2 gptj gptneox granite
		granitehybrid granitemoe grok grovemoe hunyuan-dense hunyuan-moe internlm2 jais jamba jina-bert-v2 jina-bert-v3
		kimi-linear lfm2 lfm2moe llada llada-moe llama llama4 mamba mamba2 mimo2 minicpm minicpm3 minimax-m2 mistral3
		modern-bert mpt nemotron nemotron_h nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe openelm orion
		pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe
		qwen3next qwen3vl qwen3vlmoe refact rnd1 rwkv6 rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3 stablelm starcoder
		starcoder2 step35 t5 t5encoder wavtokenizer-dec xverse`)
	return slices.Contains(names, architecture)
}
