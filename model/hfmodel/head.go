package hfmodel

import (
	"strings"

	"floodmark/model"
)

// head adds what stands after the last layer, according to what the class is
// used for: a head over the vocabulary, a classifier, or nothing.
func (c scope) head(s section, d *decoder, n map[string]string, table int32, hidden, vocab int64, use string) {
	switch use {
	case "Model":
		s.is("tie_word_embeddings")
		return
	case "ForSequenceClassification", "ForTokenClassification":
		c.linear(model.RoleClassifier, "score", hidden, s.labels(), model.RoleClassifier, use == "ForTokenClassification")
		return
	}
	absent := flag("tie_word_embeddings")
	if d.tied {
		absent = "tie_word_embeddings=true"
	}
	at := c.add(model.RoleHead, linear, n["head"]+".weight", vocab, hidden)
	if s.is(absent) && at != model.NotTied {
		c.drafts[at].TiedTo = table
	}
	if s.is(d.headBias) {
		c.add(model.RoleHeadBias, parameter, n["head"]+".bias", vocab)
	}
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
