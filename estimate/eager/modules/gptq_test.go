package modules

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// gptqOf is a weight of [out, in] in groups of 64, as a checkpoint's headers have it.
func gptqOf(bits, in, out, group int64, ordered bool) GPTQ {
	return GPTQ{Bits: bits, Words: []int64{in * bits / 32, out}, Zeros: []int64{in / group, out * bits / 32},
		Scales: []int64{in / group, out}, Index: []int64{in}, Ordered: ordered, Biased: true}
}

// gptqPass is the events of a forward and a backward pass through one layer, without
// what lives beside nothing else.
func gptqPass(t *testing.T, device torch.Device, release Release, g GPTQ, rows int64) (events []string, peak int64) {
	t.Helper()
	m := torch.New(torch.Options{Device: device})
	n := &Net{m: m, o: Options{Release: release}}
	layer, bias := n.gptq(g, dtype.F16), m.Buffer(dtype.F16, g.Words[1])
	x := m.RequireGrad(m.Input(dtype.F16, 2, rows/2, g.Index[0]))
	grad := m.Input(dtype.F16, 2, rows/2, g.Words[1])
	m.Phase(account.PhaseForward, 1)
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	from := len(tl.Events)
	out := m.Keep(n.gptqProduct(layer, x, bias))
	m.BackwardWith(out, grad)
	m.ZeroGrad(x, true)
	m.Drop(out)
	if why := m.Unpredicted(); why != "" {
		t.Fatal(why)
	}
	if tl, err = m.Timeline(); err != nil {
		t.Fatal(err)
	}
	number, level := map[uint32]int{}, int64(0)
	for _, e := range tl.Events[from:] {
		size := tl.Allocs[e.Alloc].Requested
		switch e.Kind {
		case timeline.Born:
			number[e.Alloc] = len(number)
			events = append(events, fmt.Sprint("+ ", size))
			level += size
		case timeline.FreeCompleted:
			events = append(events, fmt.Sprint("- ", number[e.Alloc]))
			level -= size
		}
		peak = max(peak, level)
	}
	return events, peak
}

// withoutScratch leaves out blocks that are born and gone with nothing between: those
// of oneDNN's products.
func withoutScratch(events []string) (kept []string) {
	gone, number := map[int]int{}, 0
	for i := 0; i < len(events); i++ {
		var of int
		if fmt.Sscanf(events[i], "- %d", &of); events[i][0] == '-' {
			kept = append(kept, fmt.Sprint("- ", gone[of]))
			continue
		}
		born := number
		number++
		if i+1 < len(events) && events[i+1] == fmt.Sprint("- ", born) {
			i++
			continue
		}
		gone[born] = len(gone)
		kept = append(kept, events[i])
	}
	return kept
}

// TestRecordedGPTQ compares each class of auto-gptq with what it allocated on a CPU, event
// by event.
func TestRecordedGPTQ(t *testing.T) {
	data, err := os.ReadFile("testdata/gptq.txt")
	if err != nil {
		t.Fatal(err)
	}
	releases := map[string]Release{"0.4.2": {Major: 4, Minor: 34}, "0.7.1": {Major: 4, Minor: 40}} // of transformers beside them
	for _, text := range strings.Split(string(data), "## ")[1:] {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		t.Run(lines[0], func(t *testing.T) {
			var release, class string
			var bits int64
			if _, err := fmt.Sscan(lines[0], &release, &class, &bits); err != nil {
				t.Fatal(err)
			}
			got, _ := gptqPass(t, torch.CPU(), releases[release], gptqOf(bits, 256, 384, 64, class == "qlinear_cuda"), 192)
			if want := withoutScratch(lines[1:]); !slices.Equal(withoutScratch(got), want) {
				t.Errorf("%v\nwant %v", withoutScratch(got), want)
			}
		})
	}
}

// TestGPTQ: 4 bits of a weight of 4096 × 11008 in groups of 128 are 23,441,408 bytes with
// what is beside the words, and a product on a GPU peaks while words of 32 bits become
// integers of 8: five bytes an element, beside the zero points.
func TestGPTQ(t *testing.T) {
	const in, out, rows = 4096, 11008, 128
	g := gptqOf(4, in, out, 128, false)
	var bytes int64
	for _, part := range []struct {
		format dtype.Format
		shape  []int64
	}{{dtype.I32, g.Words}, {dtype.I32, g.Zeros}, {dtype.F16, g.Scales}, {dtype.I32, g.Index}} {
		n, _ := part.format.Size(part.shape)
		bytes += n
	}
	if want := int64(22_544_384 + 176_128 + 704_512 + 16_384); bytes != want {
		t.Errorf("the weight is %d bytes, want %d", bytes, want)
	}
	_, peak := gptqPass(t, torch.A100(), Release{Major: 4, Minor: 34}, g, rows)
	if want := int64(5*in*out + in/128*out); peak != want {
		t.Errorf("a product peaks at %d bytes, want %d", peak, want)
	}
}

// TestGPTQUnknown says what of GPTQ is not described, by name.
func TestGPTQUnknown(t *testing.T) {
	for _, c := range []struct {
		release string
		bits    int64
		want    string
	}{
		{"4.34", 4, ""}, {"4.48.3", 8, ""}, {"4.34", 3, "other bits than 2, 4 and 8"}, {"4.31", 4, "before 4.32"},
		{"4.49", 4, "GPTQModel"}, {"", 4, "GPTQModel"},
	} {
		r, err := ParseRelease(c.release)
		if err != nil {
			t.Fatal(err)
		}
		if why := GPTQUnknown(r, gptqOf(c.bits, 256, 384, 64, false)); (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%q and %d bits: %q, want %q", c.release, c.bits, why, c.want)
		}
	}
}
