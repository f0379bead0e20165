package hfmodel

import (
	"strings"

	"floodmark/internal/source"
	"floodmark/model"
)

// head adds what stands after the last layer, according to what the class is
// used for: a head over the vocabulary, a classifier, or nothing.
func (c scope) head(s section, k *stack, e sections, table int32, hidden int64, at site) {
	s.truth("tie_word_embeddings")
	if s.parent != nil {
		s.parent.truth("tie_word_embeddings")
	}
	if pieces, own := k.heads[at.use]; own {
		c.pieces(e, pieces)
		return
	}
	if k.slot["head"] == "" {
		return
	}
	switch at.use {
	case "Model", "EncoderModel":
		return
	case "ForSequenceClassification", "ForTokenClassification":
		c.linear(model.RoleClassifier, "score", hidden, s.labels(), model.RoleClassifier, at.use == "ForTokenClassification")
		return
	}
	vocab := s.need(keyVocab)
	head := c.add(model.RoleHead, linear, k.slot["head"]+".weight", vocab, s.or("word_embed_proj_dim", hidden))
	if s.tied(k) && !at.untied && head != model.NotTied {
		c.drafts[head].TiedTo = table
	}
	if s.is(k.headBias) {
		c.add(model.RoleHeadBias, parameter, k.slot["head"]+".bias", vocab)
	}
}

// truth refuses a switch that is neither true nor false.
func (s section) truth(key string) {
	if v, field := s.find(key); v != nil && v.kind != isBool {
		s.fail(source.InField(s.file, field, "is %s (%s), expected true or false", v.kind, v))
	}
}

// tied reports whether the head is the token embedding: by the object around,
// whose class has the head, else by the object itself, else by what the class
// assumes. transformers 5 writes the key into both, and the outer one counts.
func (s section) tied(k *stack) bool {
	const key = "tie_word_embeddings"
	if around := s.parent; around != nil && around.has(key) {
		s.has(key)
		return around.is(key)
	}
	if k.tied {
		return s.is(key + "=true")
	}
	return s.is(key)
}

// labels is how many classes a classifier has: two when the configuration
// does not say, as transformers assumes.
func (s section) labels() int64 {
	if v, _ := s.find("id2label"); v != nil && v.kind == isObject && len(v.items) > 0 {
		return int64(len(v.items))
	}
	return s.or("num_labels", 2)
}

// words splits a comma-separated list of names; none for an empty one.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
