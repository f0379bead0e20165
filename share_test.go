package floodmark

import (
	"context"
	"errors"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/device"
	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/record"
)

// Two processes of one model on a card of so many bytes.
func shareOf(t *testing.T, bytes int64) *Sharing {
	t.Helper()
	r := generation(t, "eager")
	card := device.Declared(account.Exact(bytes, account.Provenance{}))
	r.Card = &card
	s, err := Share(context.Background(), 0, []Workload{{Name: "a.yaml", Request: r}, {Name: "b.yaml", Request: r}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Together they fit where the sum of their peaks does; they do not fit where one
// peak beside what the other keeps is too much; between the two nobody can say,
// because nobody declared when each of them peaks.
func TestSharingAddsProcesses(t *testing.T) {
	checklist.Covers(t, 14, 15)
	s := shareOf(t, 1<<40)
	a := s.Accounts()[0]
	peak := processPeak(a)
	high, known := peak.High()
	if !known || kept(a) <= 0 || kept(a) > peak.Low() {
		t.Fatalf("a peak of %d to %d, %d kept", peak.Low(), high, kept(a))
	}
	for _, c := range []struct {
		name  string
		bytes int64
		want  fit.Value
	}{
		{"both peaks at their most", 2 * high, fit.Fits},
		{"a byte less", 2*high - 1, fit.CannotTell},
		{"one peak beside what the other keeps", peak.Low() + kept(a), fit.CannotTell},
		{"a byte less than that", peak.Low() + kept(a) - 1, fit.DoesNotFit},
		{"one alone would fit", high, fit.DoesNotFit},
	} {
		got := shareOf(t, c.bytes)
		if got.Verdict.Value != c.want {
			t.Errorf("%s: %s %q, want %s", c.name, got.Verdict.Value, got.Verdict.Reasons, c.want)
		}
		if v := got.Verdict; v.Phase == "" || v.Term == "" {
			t.Errorf("%s: the verdict names phase %q and term %q", c.name, v.Phase, v.Term)
		}
	}
}

func TestSharingRecord(t *testing.T) {
	d := shareOf(t, 1<<40).Record(record.Tool{}).(*record.Estimate)
	if d.Shared == nil || len(d.Shared.Processes) != 2 || d.Shared.HighBytes == nil || d.Verdict == nil {
		t.Fatalf("%+v", d.Shared)
	}
	var sum int64
	for _, p := range d.Shared.Processes {
		if p.PeakHighBytes == nil || p.Term == nil || p.Phase == "" {
			t.Fatalf("%+v", p)
		}
		sum += *p.PeakHighBytes
	}
	if sum != *d.Shared.HighBytes {
		t.Errorf("the peaks add up to %d, the device holds up to %d", sum, *d.Shared.HighBytes)
	}
}

func TestSharingRefuses(t *testing.T) {
	r := generation(t, "eager")
	h100, err := FindCard("h100")
	if err != nil {
		t.Fatal(err)
	}
	a100, err := FindCard("a100-sxm4-80gb")
	if err != nil {
		t.Fatal(err)
	}
	with := func(c *device.Card) Request {
		q := r
		q.Card = c
		return q
	}
	for _, c := range []struct {
		name, want string
		device     int
		list       []Workload
	}{
		{"one workload", "two or more", 0, []Workload{{Name: "a", Request: with(&h100)}}},
		{"no card", "no card to share", 0, []Workload{{Name: "a", Request: r}, {Name: "b", Request: r}}},
		{"two cards", "another card", 0, []Workload{{Name: "a", Request: with(&h100)}, {Name: "b", Request: with(&a100)}}},
		{"no rank there", "no rank on cuda:3", 3, []Workload{{Name: "a", Request: with(&h100)}, {Name: "b", Request: r}}},
	} {
		_, err := Share(context.Background(), c.device, c.list)
		var settings *SettingsError
		if !errors.As(err, &settings) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
