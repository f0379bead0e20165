package megatron

import "testing"

// A version is read by its second number; what is no version of 0.x is the newest.
func TestReleases(t *testing.T) {
	for version, want := range map[string]release{"0.13": 13, "0.13.0": 13, "0.18.0rc2": 18, "": 0, "1.2": 0, "0.": 0, "0.x": 0, "0.-3": 0} {
		if got := releaseOf(version); got != want {
			t.Errorf("%q is read as 0.%d, want 0.%d", version, got, want)
		}
	}
	if newest := release(0); newest.before(99) || !release(12).before(13) || release(13).before(13) || !release(18).keepsBatches() {
		t.Error("the newest release is before none, and each before the next")
	}
}
