package replay

import (
	"fmt"
	"math/bits"

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
	return settings
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
