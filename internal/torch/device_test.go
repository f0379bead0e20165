package torch

import "testing"

// The workspace that cuBLAS has by default follows the card and the release of
// PyTorch; what a configuration set before stays on other cards.
func TestWorkspaceOfARelease(t *testing.T) {
	for _, c := range []struct {
		device  Device
		release Release
		want    int64
	}{
		{A100(), Release{}, 8_519_680}, {H100(), Release{2, 6}, 33_554_432}, {H100(), Release{}, 33_554_432},
		{B200(), Release{2, 10}, 8_519_680}, {B200(), Release{2, 12}, 33_554_432}, {B200(), Release{}, 33_554_432},
	} {
		if got := c.device.Under(c.release).Workspace; got != c.want {
			t.Errorf("%s under %v: %d bytes, want %d", c.device.Name, c.release, got, c.want)
		}
	}
}

// One card stands for an architecture, whoever asks.
func TestCardOfAnArchitecture(t *testing.T) {
	for _, c := range []struct {
		arch    string
		release Release
		want    string
		bytes   int64
	}{
		{"", Release{}, "A100", 8_519_680}, {"Turing", Release{}, "A100", 8_519_680}, {"Ada", Release{}, "RTX 4090", 8_519_680},
		{"Hopper", Release{2, 4}, "H100", 33_554_432}, {"Blackwell", Release{2, 8}, "B200", 8_519_680}, {"Blackwell", Release{}, "B200", 33_554_432},
	} {
		if got := CardOf(c.arch, c.release); got.Name != c.want || got.Workspace != c.bytes {
			t.Errorf("%s under %v: %s with %d bytes, want %s with %d", c.arch, c.release, got.Name, got.Workspace, c.want, c.bytes)
		}
	}
}
