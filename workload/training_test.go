package workload

import "testing"

// A count is read whole or refused: what stands behind a number may say another.
func TestCountsAreReadWhole(t *testing.T) {
	for text, want := range map[string]Checkpointing{
		"": {Kind: NoCheckpointing}, "none": {Kind: NoCheckpointing}, "full": {Kind: FullCheckpointing, Every: 1}, "selective": {Kind: SelectiveCheckpointing},
		"2": {Kind: EveryCheckpointing, Every: 2}, "every 12": {Kind: EveryCheckpointing, Every: 12},
	} {
		if got, err := ParseCheckpointing(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"1e9", "2.9", "2abc", "every 2 or 3", "every", "every ", "0", "-1", "0x10", "99999999999999999999", "Full"} {
		if got, err := ParseCheckpointing(text); err == nil {
			t.Errorf("checkpointing %q is read as %+v", text, got)
		}
	}
	for text, want := range map[string]Schedule{"gpipe": {Kind: GPipe}, "1F1B": {Kind: OneFOneB}, "interleaved 2": {Kind: Interleaved1F1B, Chunks: 2}} {
		if got, err := ParseSchedule(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"interleaved 2x", "interleaved 2 3", "interleaved 2.5", "interleaved 1e1", "interleaved ", "interleaved", "1f1b ", "gpipe 2"} {
		if got, err := ParseSchedule(text); err == nil {
			t.Errorf("schedule %q is read as %+v", text, got)
		}
	}
}
