package modules_test

import "testing"

// Layers that are computed again find what they share with others still there, and
// keep less for backward.
func TestSoftwareRecomputes(t *testing.T) {
	for _, c := range []struct{ family, software, release string }{
		{"litgpt-0.4", "litgpt", "torch 2.15.0 litgpt 0.4.0"},
		{"torchtune-0.5", "torchtune", "torch 2.15.0 torchtune 0.5.0"},
		{"torchtitan-20240616", "torchtitan", "torch 2.15.0 torchtitan 0.1.0.dev20240616"},
	} {
		kept := func(more ...string) (bytes int64) {
			list, unknown := simulate(t, recorded{family: c.family, release: c.release, words: append([]string{"2", "64", "--software", c.software}, more...)})
			if unknown != "" {
				t.Fatalf("%s: %s", c.family, unknown)
			}
			for _, e := range list {
				if e.phase == "backward 1" {
					break
				}
				bytes += e.bytes
				if e.phase == "" && e.bytes == 0 {
					bytes -= sizeOf(list, e.of)
				}
			}
			return bytes
		}
		if plain, again := kept(), kept("--checkpointing", "not_reentrant"); again <= 0 || again*2 > plain {
			t.Errorf("%s: %d bytes are kept for backward, %d where layers are computed again", c.family, plain, again)
		}
	}
}

// sizeOf is the bytes of the n-th block that is born.
func sizeOf(list []event, n int32) int64 {
	for _, e := range list {
		if e.bytes == 0 {
			continue
		}
		if n == 0 {
			return e.bytes
		}
		n--
	}
	return 0
}
