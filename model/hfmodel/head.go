package hfmodel

import (
	"strings"

	"floodmark/model"
)

// head adds what stands after the last layer, according to what the class is
// used for: a head over the vocabulary, a classifier, or nothing.
func (c scope) head(s section, k *stack, e sections, table int32, hidden int64, use string) {
	if pieces, own := k.heads[use]; own {
		s.is("tie_word_embeddings")
		c.pieces(e, pieces)
		return
	}
	if k.slot["head"] == "" {
		s.is("tie_word_embeddings")
		return
	}
	switch use {
	case "Model", "EncoderModel":
		s.is("tie_word_embeddings")
		return
	case "ForSequenceClassification", "ForTokenClassification":
		s.is("tie_word_embeddings")
		c.linear(model.RoleClassifier, "score", hidden, s.labels(), model.RoleClassifier, use == "ForTokenClassification")
		return
	}
	vocab := s.need(keyVocab)
	at := c.add(model.RoleHead, linear, k.slot["head"]+".weight", vocab, s.or("word_embed_proj_dim", hidden))
	if s.tied(k) && at != model.NotTied {
		c.drafts[at].TiedTo = table
	}
	if s.is(k.headBias) {
		c.add(model.RoleHeadBias, parameter, k.slot["head"]+".bias", vocab)
	}
}

// tied reports whether the head is the token embedding.
func (s section) tied(k *stack) bool {
	on := flag("tie_word_embeddings")
	if k.tied {
		on = "tie_word_embeddings=true"
	}
	return s.is(on) || k.untiable && k.tied
}

// labels is how many classes a classifier has: two when the configuration
// does not say, as transformers assumes.
func (s section) labels() int64 {
	if v, _ := s.find("id2label"); v != nil && v.kind == isObject {
		return int64(len(v.items))
	}
	return s.or("num_labels", 2)
}

// words splits a comma-separated list of names; none for an empty one.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
