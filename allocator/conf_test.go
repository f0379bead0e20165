package allocator

import (
	"errors"
	"strings"
	"testing"

	"floodmark/internal/source"

	"github.com/google/go-cmp/cmp"
)

// with is the defaults with some changes.
func with(change func(*Settings)) Settings {
	s := DefaultSettings()
	change(&s)
	return s
}

func TestParseConf(t *testing.T) {
	for _, c := range []struct {
		text string
		want Settings
	}{
		{"", DefaultSettings()},
		{" , ", DefaultSettings()},
		{"backend:native", DefaultSettings()},
		{"max_split_size_mb:128", with(func(s *Settings) { s.MaxSplitSize = 128 << 20 })},
		{"max_split_size_mb: 128 , expandable_segments : True", with(func(s *Settings) {
			s.MaxSplitSize, s.ExpandableSegments = 128<<20, true
		})},
		{"expandable_segments:True,expandable_segments:False", DefaultSettings()},
		{"max_split_size_mb:99999999999", DefaultSettings()},
		{"max_non_split_rounding_mb:64,large_segment_size_mb:8", with(func(s *Settings) {
			s.MaxNonSplitRounding, s.LargeSegmentSize = 64<<20, 8<<20
		})},
		{"garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True", with(func(s *Settings) {
			s.GarbageCollectionThreshold, s.MemoryFraction, s.ThrowOnOOM = 0.8, 0.5, true
		})},
		{"roundup_power2_divisions:4", with(func(s *Settings) {
			s.RoundupPower2Divisions = [16]int64{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}
		})},
		// The first value also holds below its interval; ">" holds above the last.
		{"roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]", with(func(s *Settings) {
			s.RoundupPower2Divisions = [16]int64{8, 8, 8, 8, 8, 8, 8, 2, 4, 2, 4, 1, 1, 1, 1, 1}
		})},
		// What is not listed in between stays off.
		{"roundup_power2_divisions:[2:4,8:16]", with(func(s *Settings) {
			s.RoundupPower2Divisions = [16]int64{4, 4, 0, 16}
		})},
		{"pinned_use_cuda_host_register:True,release_lock_on_cudamalloc:True", DefaultSettings()},
	} {
		got, err := ParseConf(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, d)
		}
		again, err := ParseConf(got.String())
		if err != nil || !cmp.Equal(again, got) {
			t.Errorf("%q is written as %q, which reads as %+v, %v", c.text, got.String(), again, err)
		}
	}
}

// An unknown key, and a key that has no effect, do not stop anything.
func TestParseConfWarns(t *testing.T) {
	for text, code := range map[string]string{
		"no_such_key:1":                    "allocator_setting_unknown",
		"backend:cudaMallocAsync":          "allocator_backend",
		"garbage_collection_threshold:0.6": "allocator_garbage_collection_idle",
		"throw_on_cudamalloc_oom:True":     "allocator_throw_idle",
	} {
		s, err := ParseConf(text)
		if err != nil || len(s.Warnings) != 1 || s.Warnings[0].Code != code {
			t.Errorf("%q: %v, %v, want one warning %s", text, s.Warnings, err, code)
		}
	}
}

func TestParseConfRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"max_split_size_mb":                             "expected key:value",
		"max_split_size_mb:":                            "expected key:value",
		"max_split_size_mb:12":                          "max_split_size_mb: 12 MiB is less than the 20 MiB",
		"max_split_size_mb:-1":                          "not a whole number of MiB",
		"max_split_size_mb:1e3":                         "not a whole number of MiB",
		"max_split_size_mb:32,large_segment_size_mb:64": "less than a large segment of 64 MiB",
		"expandable_segments:true":                      "neither True nor False",
		"garbage_collection_threshold:1":                "not between 0 and 1",
		"garbage_collection_threshold:NaN":              "not between 0 and 1",
		"per_process_memory_fraction:0":                 "not above 0 and at most 1",
		"per_process_memory_fraction:half":              "not a number",
		"roundup_power2_divisions:[64:8":                "brackets do not match",
		"roundup_power2_divisions:[[64:8]]":             "brackets do not match",
		"roundup_power2_divisions:64:8]":                "brackets do not match",
		"roundup_power2_divisions:[64]":                 "not interval:divisions",
		"roundup_power2_divisions:[64:3]":               "not a power of two",
		"roundup_power2_divisions:[0:2]":                "not a power of two",
		"backend:hipMallocAsync":                        "neither native nor cudaMallocAsync",
	} {
		_, err := ParseConf(text)
		var format *source.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A person who types a key that is not known is asked about it, and every key
// that is read is known.
func TestParseKnownConf(t *testing.T) {
	for text, hint := range map[string]string{
		"expandable_segment:True":     "did you mean expandable_segments?",
		"max_split_size:128":          "did you mean max_split_size_mb?",
		"garbage_colection_treshold:": "",
		"no_such_key:1":               "",
		"roundup_power2_division:4":   "did you mean roundup_power2_divisions?",
		"Backend:native":              "did you mean backend?",
	} {
		_, err := ParseKnownConf(text)
		var format *source.FormatError
		if !errors.As(err, &format) || hint != "" && format.Hint != hint || strings.Contains(format.Hint, "mean") != (hint != "") {
			t.Errorf("%q: %v, want the hint %q", text, err, hint)
		}
	}
	for _, text := range []string{"", "expandable_segments:True,max_split_size_mb:128", "pinned_num_register_threads:8", "per_process_memory_fraction:0.5"} {
		if _, err := ParseKnownConf(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, key := range keys() {
		if s, err := ParseConf(key + ":0"); err == nil && len(s.Warnings) > 0 && s.Warnings[0].Code == "allocator_setting_unknown" {
			t.Errorf("%s is not read", key)
		}
	}
}

func TestNearestRelease(t *testing.T) {
	for version, want := range map[string]string{"2.6.0+cu124": "2.6", "2.13.1": "2.13", "9.9": "not 2.13", "2.14.0": "not 2.13", "1.13.1": "1.13", "1.8.0": "not 1.13", "0.4": "not 1.13"} {
		release, itself, err := NearestRelease(version)
		if !itself {
			release = "not " + release
		}
		if release != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", version, release, err, want)
		}
	}
	if _, _, err := NearestRelease("new"); err == nil {
		t.Error("new is a version")
	}
}

func TestRulesFor(t *testing.T) {
	for version, want := range map[string]Rules{
		"2.5.1":        {OversizeCheckExpandable: true},
		"2.6.0+cu124":  {MaxNonSplitRounding: true, OversizeCheckExpandable: true},
		"2.13.0":       LatestRules(),
		"3.0.0":        LatestRules(),
		"1.13.1":       {OversizeCheckExpandable: true},
		"2.11.0a0+git": {MaxNonSplitRounding: true, LargeSegmentSize: true, OversizeCheckExpandable: true},
	} {
		if got, err := RulesFor(version); err != nil || got != want {
			t.Errorf("%s: %+v, %v", version, got, err)
		}
	}
	for _, text := range []string{"", "2", "two.six", "2.x", "2.-1"} {
		if _, err := RulesFor(text); err == nil {
			t.Errorf("%q was taken for a version", text)
		}
	}
}

func FuzzParseConf(f *testing.F) {
	f.Add("max_split_size_mb:128,expandable_segments:True")
	f.Add("roundup_power2_divisions:[64:8,128:2,>:1]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseConf(text)
		if err != nil {
			return
		}
		if s.MaxSplitSize < 20<<20 || s.LargeSegmentSize < 2<<20 || s.RoundSize(MaxRequest) < MaxRequest {
			t.Errorf("%q was read as %+v", text, s)
		}
	})
}
