package allocator

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/internal/source"
)

// The keys of PYTORCH_ALLOC_CONF that change what the allocator does.
const (
	keyBackend           = "backend"
	keyMaxSplit          = "max_split_size_mb"
	keyNonSplitRounding  = "max_non_split_rounding_mb"
	keyGarbageCollection = "garbage_collection_threshold"
	keyRoundup           = "roundup_power2_divisions"
	keyExpandable        = "expandable_segments"
	keyLargeSegment      = "large_segment_size_mb"
	keyFraction          = "per_process_memory_fraction"
	keyThrow             = "throw_on_cudamalloc_oom"
)

// ParseConf reads the text of PYTORCH_ALLOC_CONF (before 2.9
// PYTORCH_CUDA_ALLOC_CONF, on AMD cards PYTORCH_HIP_ALLOC_CONF): pairs
// key:value, parted by commas, blanks ignored, lists in brackets. An empty text
// is the defaults. An unknown key becomes a warning, although PyTorch itself
// may refuse it: another release may know it. [ParseKnownConf] refuses it.
//
// Errors are [source.FormatError] whose field is the key.
// https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf
func ParseConf(text string) (Settings, error) {
	s := DefaultSettings()
	pairs, err := splitConf(text)
	if err != nil {
		return Settings{}, err
	}
	for _, pair := range pairs {
		if err := s.set(pair.key, pair.value); err != nil {
			return Settings{}, err
		}
	}
	if s.MaxSplitSize < s.LargeSegmentSize {
		return Settings{}, confError(keyMaxSplit, "%d MiB is less than a large segment of %d MiB",
			s.MaxSplitSize>>20, s.LargeSegmentSize>>20)
	}
	if s.Backend == CudaMallocAsync {
		s.warn("allocator_backend", "backend cudaMallocAsync ignores the native allocator's settings, and its layout cannot be simulated")
	}
	if s.GarbageCollectionThreshold > 0 && s.MemoryFraction >= 1 {
		s.warn("allocator_garbage_collection_idle", keyGarbageCollection+" has no effect unless a memory fraction below 1 is set")
	}
	if s.ThrowOnOOM && s.MemoryFraction >= 1 {
		s.warn("allocator_throw_idle", keyThrow+" has no effect unless a memory fraction below 1 is set")
	}
	return s, nil
}

type confPair struct{ key, value string }

// splitConf parts a text at the commas outside brackets.
func splitConf(text string) ([]confPair, error) {
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, text)
	var pairs []confPair
	depth, start := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i < len(text) && text[i] == '[':
			depth++
		case i < len(text) && text[i] == ']':
			depth--
		}
		if depth < 0 || depth > 1 || (i == len(text) && depth != 0) {
			return nil, source.AtByte("", int64(i), "brackets do not match in %q", text)
		}
		if i < len(text) && (text[i] != ',' || depth > 0) {
			continue
		}
		part := text[start:i]
		start = i + 1
		if part == "" {
			continue
		}
		key, value, found := strings.Cut(part, ":")
		if !found || key == "" || value == "" {
			return nil, source.InField("", part, "expected key:value").
				WithHint("write for example max_split_size_mb:128,expandable_segments:True")
		}
		pairs = append(pairs, confPair{key, value})
	}
	return pairs, nil
}

func (s *Settings) set(key, value string) (err error) {
	switch key {
	case keyBackend:
		s.Backend = Backend(value)
		if s.Backend != Native && s.Backend != CudaMallocAsync {
			return confError(key, "%q is neither native nor cudaMallocAsync", value)
		}
	case keyMaxSplit:
		s.MaxSplitSize, err = confMiB(key, value, 20)
	case keyNonSplitRounding:
		s.MaxNonSplitRounding, err = confMiB(key, value, 20)
	case keyLargeSegment:
		s.LargeSegmentSize, err = confMiB(key, value, 2)
	case keyGarbageCollection:
		s.GarbageCollectionThreshold, err = confShare(key, value, false)
	case keyFraction:
		s.MemoryFraction, err = confShare(key, value, true)
	case keyRoundup:
		s.RoundupPower2Divisions, err = confDivisions(value)
	case keyExpandable:
		s.ExpandableSegments, err = confBool(key, value)
	case keyThrow:
		s.ThrowOnOOM, err = confBool(key, value)
	default:
		if !withoutEffect(key) {
			s.warn("allocator_setting_unknown", fmt.Sprintf("allocator setting %q is not known and was ignored", key))
		}
	}
	return err
}

// withoutEffect lists keys that PyTorch knows and that do not change which
// bytes of the device are reserved.
func withoutEffect(key string) bool {
	switch key {
	case "release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "graph_capture_record_stream_reuse",
		"expandable_segments_reserve", "expandable_segments_reserve_by_class":
		return true
	}
	return strings.HasPrefix(key, "pinned_")
}

func (s *Settings) warn(code, text string) {
	s.Warnings = append(s.Warnings, account.Warning{Code: code, Text: text})
}

// confMiB reads a whole number of MiB, at least least.
func confMiB(key, value string, least int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, confError(key, "%q is not a whole number of MiB", value)
	}
	if n < least {
		return 0, confError(key, "%d MiB is less than the %d MiB that PyTorch accepts", n, least)
	}
	// PyTorch clamps what does not fit; a limit beyond every request is none.
	if n > MaxRequest>>20 {
		return Unlimited, nil
	}
	return n << 20, nil
}

// confShare reads a number above 0 and below 1, or at most 1.
func confShare(key, value string, one bool) (float64, error) {
	f, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil:
		return 0, confError(key, "%q is not a number", value)
	case one && f > 0 && f <= 1, f > 0 && f < 1:
		return f, nil
	case one:
		return 0, confError(key, "%s is not above 0 and at most 1", value)
	}
	return 0, confError(key, "%s is not between 0 and 1", value)
}

func confBool(key, value string) (bool, error) {
	switch value {
	case "True":
		return true, nil
	case "False":
		return false, nil
	}
	return false, confError(key, "%q is neither True nor False", value).
		WithHint("PyTorch accepts exactly True and False")
}

// confDivisions reads one power of two for all intervals, or a list such as
// [64:8,256:4,>:1]: the first value also holds below its interval, ">" holds
// above the last one, and intervals that are not listed stay off.
func confDivisions(value string) (divisions [roundupIntervals]int64, err error) {
	if !strings.HasPrefix(value, "[") {
		all, err := confPower(value, true)
		for i := range divisions {
			divisions[i] = all
		}
		return divisions, err
	}
	list := strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
	last := -1
	for i, part := range strings.Split(list, ",") {
		interval, count, found := strings.Cut(part, ":")
		if !found {
			return divisions, confError(keyRoundup, "%q is not interval:divisions", part)
		}
		d, err := confPower(count, true)
		if err != nil {
			return divisions, err
		}
		if interval == ">" {
			for k := last + 1; k < roundupIntervals; k++ {
				divisions[k] = d
			}
			continue
		}
		mib, err := confPower(interval, false)
		if err != nil {
			return divisions, err
		}
		last = min(bits.Len64(uint64(mib))-1, roundupIntervals-1)
		if i == 0 {
			for k := range last {
				divisions[k] = d
			}
		}
		divisions[last] = d
	}
	return divisions, nil
}

func confPower(text string, zero bool) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n&(n-1) != 0 || (n == 0 && !zero) {
		return 0, confError(keyRoundup, "%q is not a power of two", text)
	}
	return n, nil
}

func confError(key, format string, args ...any) *source.FormatError {
	return source.InField("", key, format, args...)
}
