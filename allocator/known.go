package allocator

import (
	"fmt"
	"slices"
)

// keys are all that [ParseConf] understands; those that change nothing on the
// device are last.
func keys() []string {
	return []string{
		keyBackend, keyMaxSplit, keyNonSplitRounding, keyGarbageCollection, keyRoundup, keyExpandable, keyLargeSegment, keyFraction, keyThrow,
		"release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "graph_capture_record_stream_reuse",
		"expandable_segments_reserve", "expandable_segments_reserve_by_class",
		"pinned_use_cuda_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
	}
}

// ParseKnownConf is [ParseConf] for a text that somebody types: a key that is
// not known is an error with the nearest known one as its hint, because a slip
// of the hand must not be answered with the defaults.
func ParseKnownConf(text string) (Settings, error) {
	pairs, err := splitConf(text)
	if err != nil {
		return Settings{}, err
	}
	for _, pair := range pairs {
		if known(pair.key) {
			continue
		}
		refusal := confError(pair.key, "is no allocator setting that is known")
		if near := nearest(pair.key, keys()); near != "" {
			refusal = refusal.WithHint("did you mean %s?", near)
		}
		return Settings{}, refusal
	}
	return ParseConf(text)
}

func known(key string) bool { return slices.Contains(keys(), key) || withoutEffect(key) }

// nearest is the word that the fewest edits lead to; "" where a third of it
// would have to be changed.
func nearest(word string, words []string) string {
	best, least := "", len(word)/3+1
	for _, w := range words {
		if n := edits(word, w, least); n < least {
			best, least = w, n
		}
	}
	return best
}

// edits is how many letters must be put in, left out or changed (Levenshtein's
// distance). Lengths that differ by limit or more are not looked at.
func edits(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for k := range len(b) {
			change := corner
			if a[i] != b[k] {
				change++
			}
			corner = row[k+1]
			row[k+1] = min(change, row[k]+1, corner+1)
		}
	}
	return row[len(b)]
}

// Releases of which the rules are known: the first that can record a history,
// and the newest that was read.
const (
	oldestMinor = 13 // of 1
	newestMinor = 13 // of 2
)

// NearestRelease is the release whose rules [RulesFor] takes for a version, as
// "2.13", and whether that is the version itself. The error is that of RulesFor.
func NearestRelease(version string) (release string, itself bool, err error) {
	major, minor, err := parseVersion(version)
	switch {
	case err != nil:
		return "", false, err
	case major < 1 || major == 1 && minor != oldestMinor:
		return fmt.Sprintf("1.%d", oldestMinor), false, nil
	case major > 2 || major == 2 && minor > newestMinor:
		return fmt.Sprintf("2.%d", newestMinor), false, nil
	}
	return fmt.Sprintf("%d.%d", major, minor), true, nil
}
