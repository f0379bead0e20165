package floodmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/internal/source"
	"floodmark/record"
	"floodmark/workload"
)

func Example() {
	m, err := LoadModel("testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		fmt.Println(err)
		return
	}
	card, err := FindCard("h100")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := Estimate(context.Background(), Request{Model: m, Card: &card})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Verdict.Value, "because of", p.Verdict.Term, "in", p.Verdict.Phase)
	// Output: does_not_fit because of weights in model_load
}

func ExampleOpen() {
	evidence, err := Open("testdata/snapshots/training_step.pickle")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range evidence.Accounts() {
		fmt.Println("device", a.Device, "peaks at", a.Phases[0].Peak(account.Requested).Figure.Low(), "requested bytes")
	}
	// Output: device 0 peaks at 3249143816 requested bytes
}

// Evidence is told by its content, whatever its name.
func TestOpenTellsByContent(t *testing.T) {
	dir := t.TempDir()
	copyTo := func(name, from string) string {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		path string
		want record.Kind
	}{
		{copyTo("snapshot.txt", "testdata/snapshots/training_step.pickle"), record.KindSnapshot},
		{copyTo("oom.pickle", "testdata/oom/fragmentation.txt"), record.KindLog},
	} {
		evidence, err := Open(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		kind := record.Kind("")
		switch d := evidence.Record(record.Tool{}).(type) {
		case *record.Snapshot:
			kind = d.Kind
		case *record.Log:
			kind = d.Kind
		}
		if kind != c.want {
			t.Errorf("%s was read as %q, want %q", c.path, kind, c.want)
		}
	}

	_, err := Open(write("poem.txt", "shall I compare thee"))
	if !errors.Is(err, source.ErrNotThisFormat) {
		t.Errorf("a poem: %v", err)
	}
	// A snapshot that ends in the middle is a snapshot all the same, and the
	// error says where.
	whole, err := os.ReadFile("testdata/snapshots/training_step.pickle")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(write("cut.pickle", string(whole[:len(whole)/2])))
	var format *source.FormatError
	if !errors.As(err, &format) || format.Offset < 0 || !strings.HasSuffix(format.File, "cut.pickle") {
		t.Errorf("half a snapshot: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func predict(t *testing.T, dimensions map[workload.Dimension]int64) *Prediction {
	t.Helper()
	m, err := LoadModel("testdata/models/Llama-3.1-70B-Instruct")
	if err != nil {
		t.Fatal(err)
	}
	w := workload.Workload{Operation: workload.Generation, Mesh: workload.Single(),
		Inputs: []workload.Input{{Name: "only", Dimensions: dimensions}}}
	p, err := Estimate(context.Background(), Request{Model: m, Workload: w})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// held is what a term holds at the peak of the last phase.
func held(t *testing.T, p *Prediction, id account.TermID) account.Figure {
	t.Helper()
	a := p.Accounts()[0]
	last := a.Phases[len(a.Phases)-1]
	for _, s := range last.AtPeak {
		if a.Terms[s.Term].ID == id {
			return s.Bytes
		}
	}
	t.Fatalf("no term %s at the peak of %s", id, last.ID)
	return account.Figure{}
}

// 80 layers × 8 KV heads × 128 × 2 × 2 bytes is 320 KiB a position.
func TestCacheOfSeventyBillion(t *testing.T) {
	checklist.Covers(t, 42, 43, 46, 185, 186, 187)
	for _, c := range []struct {
		context, generated, sequences, want int64
	}{
		{1, 0, 1, 327_680},
		{8192, 0, 1, 2_684_354_560},
		{8192, 0, 4, 4 * 2_684_354_560},
		{8192, 0, 32, 85_899_345_920},
		{8192, 1024, 1, 327_680 * 9216},
	} {
		p := predict(t, map[workload.Dimension]int64{workload.Context: c.context, workload.Generated: c.generated, workload.Sequences: c.sequences})
		if n, ok := held(t, p, account.TermKVCache).IsExact(); !ok || n != c.want {
			t.Errorf("%d + %d positions × %d: %d, %v; want %d", c.context, c.generated, c.sequences, n, ok, c.want)
		}
	}
}

// An overflow is unknown; it never wraps into a small number that fits.
func TestAbsurdLengthIsUnknown(t *testing.T) {
	p := predict(t, map[workload.Dimension]int64{workload.Context: 1 << 61, workload.Generated: 1 << 61, workload.Sequences: 1 << 62})
	if f := held(t, p, account.TermKVCache); f.Known() {
		t.Errorf("2¹²⁴ positions take %d bytes", f.Low())
	}
}

// Each term that inference can hold is counted, zero because of something, or
// unknown because of something.
func TestEveryTermIsAccountedFor(t *testing.T) {
	checklist.Covers(t, 163, 166, 222)
	p := predict(t, map[workload.Dimension]int64{workload.Context: 8192, workload.Generated: 1024, workload.Sequences: 32})
	for id, want := range map[account.TermID]account.Status{
		account.TermWeights: account.StatusCounted, account.TermKVCache: account.StatusCounted,
		account.TermActivations: account.StatusCounted, account.TermLogits: account.StatusZero,
		account.TermGraphPools: account.StatusZero, account.TermCommunication: account.StatusZero,
		account.TermAllocatorCache: account.StatusCounted, account.TermContext: account.StatusCounted,
		account.TermTemporaries: account.StatusCounted, account.TermRecurrentState: account.StatusZero,
	} {
		f := held(t, p, id)
		if f.Status() != want || (want != account.StatusCounted && f.Reason() == "") {
			t.Errorf("%s is %s because %q, want %s", id, f.Status(), f.Reason(), want)
		}
	}
	// What is told is the peak of the process: the weights, or the size of their
	// files, are one term of it.
	weights, _ := held(t, p, account.TermWeights).IsExact()
	cache, _ := held(t, p, account.TermKVCache).IsExact()
	if peak := processPeak(p.Accounts()[0]); weights == 0 || cache == 0 || peak.Low() < weights+cache {
		t.Errorf("a peak of at least %d bytes, of which %d are weights and %d cache", peak.Low(), weights, cache)
	}
}

// One 80 GB-class card cannot hold the payload of 70.6·10⁹ parameters of two
// bytes, and 141.2 GB is 131.50 GiB.
func TestPayloadAloneRefuses(t *testing.T) {
	checklist.Covers(t, 23, 174, 175, 176, 182)
	card, err := FindCard("h100")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(70_600_000_000, 16, 0, &card, "")
	if err != nil {
		t.Fatal(err)
	}
	if p.WeightsBytes != 141_200_000_000 || p.Verdict.Value != fit.DoesNotFit || p.Verdict.Term != account.TermWeights {
		t.Errorf("%d bytes: %+v", p.WeightsBytes, p.Verdict)
	}
}

// A reserve that somebody assumes is no evidence: it neither proves that a
// model fits nor that it does not.
func TestReserveProvesNothing(t *testing.T) {
	checklist.Covers(t, 27)
	card, err := FindCard("rtx-4090")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prepare(7_000_000_000, 16, 200<<30, &card, "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Verdict.Value != fit.CannotTell {
		t.Errorf("a reserve of 200 GiB decided: %+v", p.Verdict)
	}
}

func TestRanksThatDoNotDivideAreRefused(t *testing.T) {
	m, err := LoadModel("testdata/models/Llama-3.2-1B")
	if err != nil {
		t.Fatal(err)
	}
	w := workload.Workload{Operation: workload.Load, Mesh: workload.Mesh{TensorParallel: 3}}
	if _, err := Estimate(context.Background(), Request{Model: m, Workload: w}); err == nil || !strings.Contains(err.Error(), "query heads: 32") {
		t.Errorf("three ranks: %v", err)
	}
}

// A model that loads proves only that its first allocations fit.
func TestLoadingAloneProvesNoFit(t *testing.T) {
	checklist.Covers(t, 1, 165)
	card, err := FindCard("h100")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Estimate(context.Background(), Request{ModelPath: "testdata/models/Llama-3.2-1B", Card: &card})
	if err != nil {
		t.Fatal(err)
	}
	if p.Verdict.Value != fit.CannotTell || !strings.Contains(p.Verdict.Reasons[0], "context, generated, sequences") {
		t.Errorf("a model without a workload: %+v", p.Verdict)
	}
}
