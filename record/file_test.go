package record

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
	"floodmark/internal/source"
)

func gpus() *GPUs {
	label := int64(24_000_000_000)
	return &GPUs{
		Envelope: NewEnvelope(KindGPUs, Tool{Version: "test", Command: []string{"gpus"}}, nil),
		Cards:    []Card{{ID: "rtx-4090", Name: "NVIDIA GeForce RTX 4090", LabelBytes: &label}},
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	checklist.Covers(t, 117)
	path := filepath.Join(t.TempDir(), "gpus.json")
	if err := Free(path); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, gpus()); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	other := gpus()
	other.Cards = nil
	if err := Create(path, other); !errors.Is(err, ErrExists) {
		t.Errorf("a second record of that name: %v", err)
	}
	if err := Free(path); !errors.Is(err, ErrExists) {
		t.Errorf("the name is said to be free: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the file changed")
	}
}

// Of any number of runs that begin together under one name, one writes.
func TestCreateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	var wrote int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if Create(path, gpus()) == nil {
				mu.Lock()
				wrote++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if wrote != 1 {
		t.Errorf("%d runs wrote the file", wrote)
	}
}

func TestUnwritableRecordLeavesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	if err := Create(path, struct{ F func() }{}); err == nil {
		t.Fatal("a function was written as JSON")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("an unwritable record left a file")
	}
}

func TestListsAreNeverNull(t *testing.T) {
	var b bytes.Buffer
	if err := Encode(&b, &GPUs{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"cards": []`, `"warnings": []`, `"command": []`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}

// A missing count is null and a counted zero is 0, both ways.
func TestNullIsNotZero(t *testing.T) {
	checklist.Covers(t, 91)
	zero := int64(0)
	g := gpus()
	g.Cards[0].LabelBytes = nil
	g.Cards[0].ReportedLowBytes = &zero
	var b bytes.Buffer
	if err := Encode(&b, g); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, `"label_bytes": null`) || !strings.Contains(text, `"reported_low_bytes": 0`) {
		t.Errorf("null and 0 are mixed up: %s", text)
	}
	back, err := Read(source.Bytes("r.json", b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	card := back.(*GPUs).Cards[0]
	if card.LabelBytes != nil || card.ReportedLowBytes == nil || *card.ReportedLowBytes != 0 {
		t.Errorf("read back as %v, %v", card.LabelBytes, card.ReportedLowBytes)
	}
}

// Counters stay integers of bytes in the file, to the last bit.
func TestBytesStayExact(t *testing.T) {
	checklist.Covers(t, 21)
	most := int64(math.MaxInt64)
	g := gpus()
	g.Cards[0].LabelBytes = &most
	var b bytes.Buffer
	if err := Encode(&b, g); err != nil {
		t.Fatal(err)
	}
	back, err := Read(source.Bytes("r.json", b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got := *back.(*GPUs).Cards[0].LabelBytes; got != most {
		t.Errorf("%d came back as %d", most, got)
	}
}

func TestInterval(t *testing.T) {
	p := account.Provenance{}
	show := func(n *int64) any {
		if n == nil {
			return nil
		}
		return *n
	}
	for _, c := range []struct {
		f    account.Figure
		want [3]any
	}{
		{account.Exact(5, p), [3]any{int64(5), nil, nil}},
		{account.Zero("none", p), [3]any{int64(0), nil, nil}},
		{account.Between(3, 9, p), [3]any{nil, int64(3), int64(9)}},
		{account.AtLeast(3, "why", p), [3]any{nil, int64(3), nil}},
		{account.Unknown("why", p), [3]any{nil, nil, nil}},
	} {
		exact, low, high := Interval(c.f)
		if got := [3]any{show(exact), show(low), show(high)}; got != c.want {
			t.Errorf("%+v is written as %v, want %v", c.f, got, c.want)
		}
	}
}
