package replay

import (
	"fmt"
	"math/bits"
	"strings"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/snapshot"
)

// RecordedSettings are the settings under which a device recorded, as far as
// the snapshot tells: its text first, then the values that it spells out, which
// are those in effect at the dump. A file before PyTorch 2.3 has none; the
// defaults are assumed then, with expandable segments where the device has any.
func RecordedSettings(s *snapshot.Snapshot, r *snapshot.Recording) allocator.Settings {
	if s.Settings == nil {
		settings := allocator.DefaultSettings()
		settings.ExpandableSegments = usesExpandable(r)
		return settings
	}
	recorded := s.Settings
	settings, err := allocator.ParseConf(recorded.Conf)
	if err != nil {
		settings = allocator.DefaultSettings()
		settings.Warnings = append(settings.Warnings, account.Warning{
			Code: "settings_not_understood",
			Text: fmt.Sprintf("the recorded allocator settings %q cannot be read (%v); the values beside them were used", recorded.Conf, err),
		})
	}
	text := settings
	settings.MaxSplitSize = recorded.MaxSplitSize
	if recorded.MaxSplitSize < 0 {
		settings.MaxSplitSize = allocator.Unlimited
	}
	settings.GarbageCollectionThreshold = recorded.GarbageCollectionThreshold
	settings.ExpandableSegments = recorded.ExpandableSegments
	for _, roundup := range recorded.Roundups {
		if i := bits.Len64(uint64(roundup.FromMiB)) - 1; i >= 0 && i < len(settings.RoundupPower2Divisions) && roundup.Divisions >= 0 {
			settings.RoundupPower2Divisions[i] = roundup.Divisions
		}
	}
	if err == nil {
		settings.Warnings = append(settings.Warnings, differences(recorded.Conf, text, settings)...)
	}
	return settings
}

// differences warns where the text of the settings names a key to which another
// value is recorded beside it.
func differences(conf string, text, used allocator.Settings) []account.Warning {
	var list []account.Warning
	conf = "," + strings.Join(strings.Fields(conf), "")
	for _, d := range []struct {
		key     string
		differs bool
	}{
		{"max_split_size_mb", text.MaxSplitSize != used.MaxSplitSize},
		{"garbage_collection_threshold", text.GarbageCollectionThreshold != used.GarbageCollectionThreshold},
		{"expandable_segments", text.ExpandableSegments != used.ExpandableSegments},
		{"roundup_power2_divisions", text.RoundupPower2Divisions != used.RoundupPower2Divisions},
	} {
		if d.differs && strings.Contains(conf, ","+d.key+":") {
			list = append(list, account.Warning{Code: "settings_contradict", Text: fmt.Sprintf(
				"the recorded allocator settings %q name another %s than the value recorded beside them; that value was used", conf[1:], d.key)})
		}
	}
	return list
}

func usesExpandable(r *snapshot.Recording) bool {
	for _, segment := range r.Segments {
		if segment.Expandable {
			return true
		}
	}
	for _, action := range r.Trace.Action {
		if action == snapshot.SegmentMap {
			return true
		}
	}
	return false
}
