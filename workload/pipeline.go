package workload

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// mostLetters bounds a layout of a pipeline: more than anybody's layers.
const mostLetters = 1 << 16

var (
	repeatedGroup  = regexp.MustCompile(`\(([^)]+)\)\*(\d+)`)
	repeatedLetter = regexp.MustCompile(`(.)\*(\d+)`)
)

// PipelinePieces is the letters of each piece of a --pipeline-model-parallel-layout, in
// the order of the model: E is the embedding, t a layer, m one that predicts ahead, L
// the loss; a bar ends a piece, and x*n or (…)*n stands n times. Et*3|(tt|)*6L is Ettt,
// six times tt, and L
// (megatron/core/transformer/pipeline_parallel_layer_layout.py, parse_str_to_list).
func PipelinePieces(layout string) ([]string, error) {
	text, fits := strings.ReplaceAll(layout, ",", ""), true
	for _, pattern := range []*regexp.Regexp{repeatedGroup, repeatedLetter} {
		left := mostLetters
		text = pattern.ReplaceAllStringFunc(text, func(part string) string {
			found := pattern.FindStringSubmatch(part)
			n, err := strconv.Atoi(found[2])
			if fits = fits && err == nil && n <= left/len(found[1]); !fits {
				return ""
			}
			left -= n * len(found[1])
			return strings.Repeat(found[1], n)
		})
		if !fits || len(text) > 2*mostLetters {
			return nil, fmt.Errorf("has more than %d letters", mostLetters)
		}
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(text, "E"), "L")
	if len(inner)+2 != len(text) || strings.Trim(inner, "tm|") != "" {
		return nil, errors.New("is not an E, layers t and bars, and an L, as Et*3|(tt|)*6L")
	}
	return strings.Split(text, "|"), nil
}
