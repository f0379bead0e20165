package floodmark

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/account"
	"floodmark/device"
	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/record"
	"floodmark/workload"
)

// generation is a small model that generates, on no card.
func generation(t *testing.T, engine string) Request {
	t.Helper()
	m, err := LoadModel("testdata/models/Llama-3.2-1B")
	if err != nil {
		t.Fatal(err)
	}
	return Request{Model: m, Workload: workload.Workload{Operation: workload.Generation, Mesh: workload.Single(), Engine: workload.Engine{Name: engine},
		Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{workload.Context: 2048, workload.Generated: 64, workload.Sequences: 4}}}}}
}

func predicted(t *testing.T, r Request) *Prediction {
	t.Helper()
	p, err := Estimate(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The row of a card is the answer that the card gets when it is named, and what
// fits comes first, the smallest card in front.
func TestEveryCardIsJudgedAsIfNamed(t *testing.T) {
	checklist.Covers(t, 155, 156, 157)
	r := generation(t, "eager")
	rows, err := OnEveryCard(context.Background(), predicted(t, r))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 100 {
		t.Fatalf("%d cards", len(rows))
	}
	last, capacity := "fits", int64(0)
	for _, row := range rows {
		card, err := FindCard(row.ID)
		if err != nil {
			t.Fatal(err)
		}
		r.Card = &card
		if diff := cmp.Diff(verdictRecord(*predicted(t, r).Verdict), &row.Verdict); diff != "" {
			t.Errorf("%s (-named +listed):\n%s", row.ID, diff)
		}
		if row.Verdict.Value == "fits" && last != "fits" {
			t.Errorf("%s fits and comes after what does not", row.ID)
		}
		if last != row.Verdict.Value {
			last, capacity = row.Verdict.Value, 0
		}
		low := row.ReportedLowBytes
		if row.ReportedBytes != nil {
			low = row.ReportedBytes
		}
		if low != nil && *low < capacity {
			t.Errorf("%s comes after a larger card", row.ID)
		} else if low != nil {
			capacity = *low
		}
	}
}

// A format that the software refuses on a card cannot run there, however much
// memory it has; where nothing refuses it the answer says what happens.
func TestFormatAgainstComputeCapability(t *testing.T) {
	checklist.Covers(t, 155)
	for _, c := range []struct {
		name, card, engine string
		features           []workload.Feature
		want               fit.Value
		says               string
	}{
		{"bf16 served on Turing", "quadro-rtx-8000", "serving", nil, fit.NotRunnable, "BF16 needs compute capability 8.0"},
		{"bf16 in plain PyTorch on Turing", "quadro-rtx-8000", "eager", nil, fit.Fits, ""},
		{"bf16 on Ampere", "a100-sxm4-80gb", "serving", nil, fit.Fits, ""},
		{"fp8 on Ampere", "a100-sxm4-80gb", "eager", []workload.Feature{workload.FP8Compute}, fit.NotRunnable, "8.9"},
	} {
		r := generation(t, c.engine)
		card, err := FindCard(c.card)
		if err != nil {
			t.Fatal(err)
		}
		r.Card, r.Workload.Features = &card, c.features
		p := predicted(t, r)
		if p.Verdict.Value != c.want || c.says != "" && !strings.Contains(p.Verdict.Reasons[0], c.says) {
			t.Errorf("%s: %s because %q", c.name, p.Verdict.Value, p.Verdict.Reasons)
		}
		imitated := false
		for _, w := range p.Record(record.Tool{}).(*record.Estimate).Warnings {
			imitated = imitated || w.Code == "format_imitated"
		}
		if want := c.name == "bf16 in plain PyTorch on Turing"; imitated != want {
			t.Errorf("%s: imitated is %v", c.name, imitated)
		}
	}
}

// What may leave less than is counted keeps "does not fit" from being decided, and is the
// reason; where only what passes may be less, states that are too much by themselves decide.
func TestWhatMayLowerDecidesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		work workload.Workload
		term account.TermID
		want fit.Value
	}{
		{"nothing open", workload.Workload{}, account.TermActivations, fit.DoesNotFit},
		{"what adds", workload.Workload{Open: []string{"noise"}}, account.TermActivations, fit.DoesNotFit},
		{"what divides", workload.Workload{Open: []string{"cp"}, Lowering: []string{"cp"}}, account.TermWeights, fit.CannotTell},
		{"what passes, under activations", workload.Workload{Open: []string{"liger"}, LoweringPasses: []string{"liger"}}, account.TermActivations, fit.CannotTell},
		{"what passes, under weights", workload.Workload{Open: []string{"liger"}, LoweringPasses: []string{"liger"}}, account.TermWeights, fit.DoesNotFit},
	} {
		p := &Prediction{Request: Request{Workload: c.work}}
		v := p.lowered(fit.Verdict{Value: fit.DoesNotFit, Term: c.term, Short: 1, Reasons: []string{"needs more"}})
		if v.Value != c.want {
			t.Errorf("%s: %s, want %s", c.name, v.Value, c.want)
		}
		if v.Value == fit.CannotTell && (v.Short != 0 || v.Reasons[0] != c.work.Open[0]) {
			t.Errorf("%s: short of %d because %q", c.name, v.Short, v.Reasons)
		}
	}
}

// What is free on one rank's device decides for that rank alone.
func TestFreeBytesOfOneDevice(t *testing.T) {
	checklist.Covers(t, 156, 157, 172)
	r := generation(t, "eager")
	r.Workload.Mesh.TensorParallel = 2
	card, err := FindCard("h100-sxm5-80gb")
	if err != nil {
		t.Fatal(err)
	}
	r.Card = &card
	r.Free = map[int]account.Figure{1: account.Exact(1<<30, account.Provenance{})}
	p := predicted(t, r)
	if p.Verdict.Value != fit.DoesNotFit || p.Verdict.Rank != 1 {
		t.Errorf("1 GiB free on one of two cards: %s at rank %d", p.Verdict.Value, p.Verdict.Rank)
	}
	r.Card = nil
	r.Free = map[int]account.Figure{AnyDevice: account.Exact(60<<30, account.Provenance{})}
	p = predicted(t, r)
	d := p.Record(record.Tool{}).(*record.Estimate).Ranks[0].Device
	if p.Verdict.Value != fit.Fits || d.ReportedBytes != nil || d.UsableBytes == nil || *d.UsableBytes != 60<<30 {
		t.Errorf("60 GiB free of an unknown card: %+v, %+v", p.Verdict, d)
	}
}

func TestUnknownCardsWork(t *testing.T) {
	checklist.Covers(t, 126)
	r := generation(t, "eager")
	card := device.Declared(account.Exact(80<<30, account.Provenance{}))
	r.Card = &card
	if p := predicted(t, r); p.Verdict.Value != fit.Fits {
		t.Errorf("80 GiB that nobody catalogued: %+v", p.Verdict)
	}
}

func BenchmarkOnEveryCard(b *testing.B) {
	m, err := LoadModel("testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		b.Fatal(err)
	}
	r := Request{Model: m, Workload: workload.Workload{Operation: workload.Generation, Mesh: workload.Mesh{TensorParallel: 8},
		Inputs: []workload.Input{{Name: "only", Dimensions: map[workload.Dimension]int64{workload.Context: 8192, workload.Generated: 1024, workload.Sequences: 32}}}}}
	for b.Loop() {
		p, err := Estimate(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := OnEveryCard(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
}
