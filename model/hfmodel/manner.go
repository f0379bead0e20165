package hfmodel

import (
	"strconv"
	"strings"

	"floodmark/model"
)

// Spellings of the probabilities of dropout, over all families.
const (
	keyDropEmbedding   = "embd_pdrop|embd_dropout|embedding_dropout|embedding_dropout_prob|hidden_dropout_prob|pos_drop_rate"
	keyDropResidual    = "resid_pdrop|residual_dropout|resid_dropout|hidden_dropout|hidden_dropout_prob|dropout|dropout_rate|proj_drop_rate"
	keyDropAttention   = "attn_pdrop|attention_dropout|attn_dropout|attention_probs_dropout_prob|attn_drop_rate"
	keyDropFeedForward = "activation_dropout|ffn_dropout"
	keyDropHead        = "classifier_dropout|seq_classif_dropout|hidden_dropout_prob|drop_rate"
)

// manner is what the class of a stack does around its tensors.
func (k *stack) manner(s section) model.Manner {
	return model.Manner{
		ScaledEmbedding: k.scaled || s.has("embedding_multiplier|scale_emb"),
		ScaledResidual:  s.has("residual_multiplier|scale_depth"),
		ScaledLogits:    s.has("logits_scaling|logit_scale|dim_model_base"),
		LocalRotary:     k.localRotary || s.has("rope_local_base_freq"),
		LogitCap:        s.rate("final_logit_softcapping"),
		Text:            k.text,
		ApartGate:       k.apartGate,
		Dropout: model.Dropout{
			Embedding:   s.rate(keyDropEmbedding),
			Residual:    s.rate(keyDropResidual),
			Attention:   s.rate(keyDropAttention),
			FeedForward: s.rate(keyDropFeedForward),
			Head:        s.rate(keyDropHead),
		},
	}
}

// rate is a number that bears no size; 0 where it is none.
func (s section) rate(key string) float64 {
	text, _ := s.given(key)
	if v, _ := s.find(key); v != nil {
		text = v.text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 {
		return 0
	}
	return f
}

// activation is the function of a feed-forward network. T5's configurations name
// it with the kind of the network, and mean by the gated GELU the one that GPT-2
// wrote out
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/t5/configuration_t5.py).
// Configurations that are like Llama's or Gemma's may leave theirs out: their
// classes assume SiLU and the GELU by tanh.
func (s section) activation(k *stack) string {
	if named := s.text(keyAct); named != "" {
		return named
	}
	switch {
	case k.ffn.plain || !strings.HasPrefix(string(k.names), llamaNames):
	case k.scaled && k.offset:
		return "gelu_pytorch_tanh"
	default:
		return "silu"
	}
	function, gated := strings.CutPrefix(s.text("feed_forward_proj"), "gated-")
	if gated && function == "gelu" {
		return "gelu_new"
	}
	return function
}
