package record

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"floodmark/internal/checklist"
)

func aMeasurement(subject string) *Measurement {
	return &Measurement{Head: Head{Envelope: NewEnvelope(KindMeasurement, Tool{Version: "test"}, nil)}, Subject: subject}
}

// A name is taken before the run: what is there stays as it is, of two that ask
// at once one is refused, and the result replaces only what was reserved.
func TestReserve(t *testing.T) {
	checklist.Covers(t, 117)
	path := filepath.Join(t.TempDir(), "run.json")
	taken := make(chan *Reservation, 2)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			r, err := Reserve(path, aMeasurement("lab"))
			if err != nil && !errors.Is(err, ErrExists) {
				t.Error(err)
			}
			taken <- r
		})
	}
	wait.Wait()
	a, b := <-taken, <-taken
	if (a == nil) == (b == nil) {
		t.Fatalf("of two that asked for one name, got %v and %v", a, b)
	}
	if a == nil {
		a = b
	}
	if err := a.Write(aMeasurement("program")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Reserve(path, aMeasurement("lab")); !errors.Is(err, ErrExists) {
		t.Errorf("reserving a name that is taken: %v", err)
	}
	if again, _ := os.ReadFile(path); string(again) != string(data) {
		t.Error("a refused reservation changed the file")
	}
}

func TestReservationKeepsWhatOthersPutThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	r, err := Reserve(path, aMeasurement("lab"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".other", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".other", path); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(aMeasurement("lab")); !errors.Is(err, ErrReplaced) {
		t.Errorf("writing over another file: %v", err)
	}
	r.Discard()
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("the other file became %q, %v", data, err)
	}
}

func TestDiscardGivesTheNameBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	r, err := Reserve(path, aMeasurement("lab"))
	if err != nil {
		t.Fatal(err)
	}
	r.Discard()
	if err := Free(path); err != nil {
		t.Error(err)
	}
}
