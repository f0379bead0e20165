package allocator

import (
	"fmt"
	"strconv"
	"strings"

	"floodmark/account"
)

// Rules are what differs between releases of PyTorch. They are data: the state
// machine asks them and never a version.
type Rules struct {
	// MaxNonSplitRounding: max_non_split_rounding_mb is a setting. Before, the
	// slack was 20 MiB. https://github.com/pytorch/pytorch/pull/136174
	MaxNonSplitRounding bool
	// LargeSegmentSize: large_segment_size_mb is a setting.
	// https://github.com/pytorch/pytorch/pull/172056
	LargeSegmentSize bool
	// ThrowOnOOM: throw_on_cudamalloc_oom is a setting.
	// https://github.com/pytorch/pytorch/pull/179473
	ThrowOnOOM bool
	// OversizeCheckExpandable: the limits of max_split_size also keep requests
	// away from blocks of expandable segments, which makes reserved memory grow
	// without end (https://github.com/pytorch/pytorch/issues/123548). A fix is
	// proposed in https://github.com/pytorch/pytorch/pull/193400.
	OversizeCheckExpandable bool
}

// LatestRules are the rules of the newest release that was read, 2.13.
func LatestRules() Rules {
	return Rules{
		MaxNonSplitRounding:     true,
		LargeSegmentSize:        true,
		ThrowOnOOM:              true,
		OversizeCheckExpandable: true,
	}
}

// RulesFor gives the rules of a release such as "2.6.0+cu124". The borders are
// good to one minor release. A version that is not known takes the rules of the
// nearest, see [NearestRelease]. The error is for a text that is no version.
func RulesFor(version string) (Rules, error) {
	major, minor, err := parseVersion(version)
	if err != nil {
		return Rules{}, err
	}
	since := func(m int) bool { return major > 2 || (major == 2 && minor >= m) }
	return Rules{
		MaxNonSplitRounding:     since(6),
		LargeSegmentSize:        since(11),
		ThrowOnOOM:              since(12),
		OversizeCheckExpandable: true,
	}, nil
}

func parseVersion(version string) (major, minor int, err error) {
	wrong := fmt.Errorf("%q is not a version of PyTorch such as 2.6.0", version)
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return 0, 0, wrong
	}
	if major, err = strconv.Atoi(parts[0]); err != nil || major < 0 {
		return 0, 0, wrong
	}
	if minor, err = strconv.Atoi(parts[1]); err != nil || minor < 0 || minor > 999 {
		return 0, 0, wrong
	}
	return major, minor, nil
}

// Effective is what a release makes of settings: those that it does not know
// fall back to its constants, each with a warning.
func (r Rules) Effective(s Settings) Settings {
	d := DefaultSettings()
	s.Warnings = append([]account.Warning(nil), s.Warnings...)
	drop := func(known, set bool, key string) bool {
		if known || !set {
			return false
		}
		s.warn("allocator_setting_too_new", fmt.Sprintf("this release of PyTorch does not know %s; it was ignored", key))
		return true
	}
	if drop(r.MaxNonSplitRounding, s.MaxNonSplitRounding != d.MaxNonSplitRounding, keyNonSplitRounding) {
		s.MaxNonSplitRounding = d.MaxNonSplitRounding
	}
	if drop(r.LargeSegmentSize, s.LargeSegmentSize != d.LargeSegmentSize, keyLargeSegment) {
		s.LargeSegmentSize = d.LargeSegmentSize
	}
	if drop(r.ThrowOnOOM, s.ThrowOnOOM, keyThrow) {
		s.ThrowOnOOM = false
	}
	return s
}
