package replay

import (
	"strings"
	"testing"

	"floodmark/snapshot"
)

// The text of the settings and the values beside it are both recorded. The
// values count, and a text that says something else of one is named.
func TestRecordedSettingsThatContradict(t *testing.T) {
	for name, c := range map[string]struct {
		recorded snapshot.Settings
		warned   string // the keys
	}{
		"both say the same":           {snapshot.Settings{Conf: "max_split_size_mb:64, expandable_segments:True", MaxSplitSize: 64 << 20, ExpandableSegments: true}, ""},
		"the text says nothing of it": {snapshot.Settings{MaxSplitSize: 64 << 20, ExpandableSegments: true}, ""},
		"another bool":                {snapshot.Settings{Conf: "expandable_segments:True", MaxSplitSize: -1}, "expandable_segments"},
		"another size":                {snapshot.Settings{Conf: "max_split_size_mb:64", MaxSplitSize: -1}, "max_split_size_mb"},
		"another share":               {snapshot.Settings{Conf: "garbage_collection_threshold:0.8", MaxSplitSize: -1, GarbageCollectionThreshold: 0.5}, "garbage_collection_threshold"},
		"other divisions": {snapshot.Settings{Conf: "roundup_power2_divisions:4", MaxSplitSize: -1,
			Roundups: []snapshot.Roundup{{FromMiB: 1, Divisions: 8}}}, "roundup_power2_divisions"},
	} {
		got := RecordedSettings(&snapshot.Snapshot{Settings: &c.recorded}, &snapshot.Recording{})
		var warned []string
		for _, w := range got.Warnings {
			if w.Code == "settings_contradict" {
				_, after, _ := strings.Cut(w.Text, "name another ")
				key, _, _ := strings.Cut(after, " ")
				warned = append(warned, key)
			}
		}
		if strings.Join(warned, " ") != c.warned || got.ExpandableSegments != c.recorded.ExpandableSegments {
			t.Errorf("%s: %v", name, got.Warnings)
		}
	}
}
