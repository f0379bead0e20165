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
