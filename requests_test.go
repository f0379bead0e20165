package floodmark

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/device"
	"floodmark/dtype"
	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/record"
	"floodmark/workload"
)

// The engine that a workload names is applied, or taken for serving in general,
// or refused with the list of those that are known.
func TestEnginesByName(t *testing.T) {
	for name, want := range map[string]string{"": "eager", "transformers": "eager", "serving": "serving", "vllm": "vllm", "sglang": "serving", "tensorrt_llm": "serving", "tgi": "serving"} {
		if got := predicted(t, generation(t, name)).Engine.Name(); got != want {
			t.Errorf("%q is estimated as %s, want %s", name, got, want)
		}
	}
	var settings *SettingsError
	if _, err := Estimate(context.Background(), generation(t, "bogus")); !errors.As(err, &settings) || !strings.Contains(err.Error(), "sglang") {
		t.Errorf("bogus: %v", err)
	}
}

// What contradicts itself is refused.
func TestRefusedRequests(t *testing.T) {
	prefix := generation(t, "serving")
	prefix.Workload.Inputs[0].Dimensions[workload.SharedPrefix] = 2049
	free := generation(t, "")
	free.Free = map[int]account.Figure{7: account.Exact(60<<30, account.Provenance{Scope: account.Device})}
	endless := generation(t, "")
	endless.Workload.Inputs[0].Dimensions[workload.Generated] = math.MaxInt64
	for want, r := range map[string]Request{"more than its context": prefix, "cuda:7": free, "63 bits": endless} {
		var settings *SettingsError
		if _, err := Estimate(context.Background(), r); !errors.As(err, &settings) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A length for which a table of learned positions has no row fails in the first
// pass: what generation makes last is not looked up, and a solver stays within.
func TestLearnedPositions(t *testing.T) {
	for _, c := range []struct {
		model              string
		context, generated int64
		refused            bool
	}{
		{"testdata/eager/gpt2/config.json", 1024, 1, false},
		{"testdata/eager/gpt2/config.json", 1024, 2, true},
		{"testdata/eager/gpt2/config.json", 2048, 0, true},
		{"testdata/eager/opt/config.json", 1024, 0, false}, // with two rows before the first position
		{"testdata/eager/opt/config.json", 1025, 0, true},
		{"testdata/models/Llama-3.2-1B", 200_000, 0, false}, // rotary: no table, a note alone
	} {
		r := Request{ModelPath: c.model, Workload: workload.Workload{Operation: workload.Generation, Mesh: workload.Single(), Inputs: []workload.Input{{Name: "long",
			Dimensions: map[workload.Dimension]int64{workload.Context: c.context, workload.Generated: c.generated, workload.Sequences: 1}}}}}
		var settings *SettingsError
		if _, err := Estimate(context.Background(), r); errors.As(err, &settings) != c.refused {
			t.Errorf("%s, %d and %d more: %v", c.model, c.context, c.generated, err)
		}
	}
}

// A card whose memory is the system's too proves no fit until somebody says what
// is free of it; it can still prove to be too small.
func TestUnifiedMemory(t *testing.T) {
	for _, name := range []string{"jetson-agx-orin-64gb", "gb10-dgx-spark", "jetson-agx-thor-128gb", "strix-halo", "apple-64gb"} {
		card, err := FindCard(name)
		if err != nil {
			t.Fatal(err)
		}
		r := generation(t, "")
		r.Card = &card
		v := predicted(t, r).Verdict
		if v.Value != fit.CannotTell {
			t.Errorf("%s: %s", name, v.Value)
		}
		if !strings.Contains(strings.Join(predicted(t, r).Verdict.Reasons, " "), "operating system") && card.Arch != "Apple Silicon" && card.Arch != "" {
			t.Errorf("%s: %v", name, v.Reasons)
		}
	}
	card, err := FindCard("gb10-dgx-spark")
	if err != nil {
		t.Fatal(err)
	}
	r := generation(t, "")
	r.Card, r.Free = &card, map[int]account.Figure{AnyDevice: account.Exact(60<<30, account.Provenance{Scope: account.Device})}
	if v := predicted(t, r).Verdict; v.Value != fit.Fits {
		t.Errorf("with 60 GiB free: %s %v", v.Value, v.Reasons)
	}
}

// A card's capacity is what it reports, to the byte: no reserve, no percentage and
// no rounding stands between it and the answer.
func TestNoReserveByDefault(t *testing.T) {
	checklist.Covers(t, 171, 198)
	total := int64(24 << 30)
	card := device.Declared(account.Exact(total, account.Provenance{Origin: account.Assumed, Scope: account.Device}))
	r := generation(t, "")
	r.Card = &card
	p := predicted(t, r)
	b, _ := p.Budgets.Of(0)
	if n, exact := b.Capacity.IsExact(); !exact || n != total || b.Others.Low() != 0 {
		t.Errorf("of %d bytes %d are counted, and %d are kept back", total, n, b.Others.Low())
	}
	most, _ := processPeak(p.Accounts()[0]).High()
	for _, c := range []struct {
		bytes int64
		want  fit.Value
	}{{most, fit.Fits}, {most - 1, fit.CannotTell}} {
		card := device.Declared(account.Exact(c.bytes, account.Provenance{Origin: account.Assumed, Scope: account.Device}))
		r.Card = &card
		if got := predicted(t, r).Verdict.Value; got != c.want {
			t.Errorf("on %d bytes: %s, want %s", c.bytes, got, c.want)
		}
	}
}

// Every figure of a record says how it was come by, and a format that is stored
// stands apart from the one that is computed in.
func TestOriginsAndFormats(t *testing.T) {
	checklist.Covers(t, 31, 154)
	r := generation(t, "")
	r.Workload.Precision.Compute = dtype.F32
	document := predicted(t, r).Record(record.Tool{}).(*record.Estimate)
	if f := document.Model; f.ComputeFormat == nil || *f.ComputeFormat != dtype.F32.String() || len(f.StoredFormats) == 0 || f.StoredFormats[0].Name != dtype.BF16.String() {
		t.Errorf("formats: %+v", f)
	}
	for _, term := range document.Ranks[0].Terms {
		switch account.Origin(term.Origin) {
		case account.Calculated, account.Observed, account.Assumed, account.Fitted:
		default:
			t.Errorf("%s is %q", term.ID, term.Origin)
		}
	}
}

// Of the three inputs that a workload prepares, the one at the limit is missed;
// a command line has one input and no class.
func TestInputClasses(t *testing.T) {
	checklist.Covers(t, 10)
	for names, want := range map[string]string{
		"typical": "declares typical: nothing here", "typical long": "declares typical and long: nothing here",
		"typical long limit": "", "limit": "", "command-line": "",
	} {
		r := generation(t, "")
		dimensions := r.Workload.Inputs[0].Dimensions
		r.Workload.Inputs = nil
		for name := range strings.SplitSeq(names, " ") {
			r.Workload.Inputs = append(r.Workload.Inputs, workload.Input{Name: name, Dimensions: dimensions})
		}
		document := predicted(t, r).Record(record.Tool{}).(*record.Estimate)
		if got := hasWarning(document.Warnings, "no_limit_input", want); got != (want != "") {
			t.Errorf("%s: noted %v in %+v", names, got, document.Warnings)
		}
	}
}

// What a policy of admission costs is said.
func TestAdmissionNotes(t *testing.T) {
	checklist.Covers(t, 197)
	for _, c := range []struct {
		name, want string
		sequences  int64
		serving    *workload.Serving
	}{
		{"preempt", "pays in latency", 4, &workload.Serving{MaxRequests: 8, MaxLength: 4096, Policy: workload.Preempt}},
		{"queue", "requests wait", 4, &workload.Serving{MaxRequests: 8, Policy: workload.Queue}},
		{"refuse", "turned away", 4, &workload.Serving{MaxLength: 4096, Policy: workload.Refuse}},
		{"more than is admitted", "no more than 2 requests are admitted", 4, &workload.Serving{MaxRequests: 2}},
	} {
		w := generation(t, "").Workload
		w.Serving, w.Inputs[0].Dimensions[workload.Sequences] = c.serving, c.sequences
		var texts []string
		for _, n := range admissionNotes(w.Admitted()) {
			texts = append(texts, n.Text)
		}
		if !strings.Contains(strings.Join(texts, " "), c.want) {
			t.Errorf("%s: %q does not say %q", c.name, texts, c.want)
		}
	}
}

// More than a card has cannot be free of it.
func TestFreeBeyondTheCard(t *testing.T) {
	r := generation(t, "")
	card, err := FindCard("rtx-4090")
	if err != nil {
		t.Fatal(err)
	}
	r.Card = &card
	r.Free = map[int]account.Figure{AnyDevice: account.Exact(30<<30, account.Provenance{Scope: account.Device})}
	var settings *SettingsError
	if _, err := Estimate(context.Background(), r); !errors.As(err, &settings) || !strings.Contains(err.Error(), "30 GiB are said to be free") {
		t.Errorf("%v", err)
	}
}

// A layout that does not divide the model names the degrees that do.
func TestLayoutThatRuns(t *testing.T) {
	r := seventy(t, 5, "h100-sxm5-80gb")
	var layout *LayoutError
	if _, err := Estimate(context.Background(), r); !errors.As(err, &layout) || !slices.Equal(layout.Runs, []int{1, 2, 4, 8, 16}) {
		t.Errorf("%v", err)
	}
}
