package accuracy

import "testing"

// Every report of a start whose model is known is met, or its miss has a cause
// with evidence.
func TestServed(t *testing.T) {
	rows, err := Served(startupFacts)
	if err != nil {
		t.Fatal(err)
	}
	causes, err := Causes()
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	for _, r := range rows {
		_, explained := explain(r, causes)
		switch {
		case r.Status() == Inside:
			inside++
		case !explained:
			if r.Low != nil {
				t.Errorf("%s %s: %.3f to %.3f, printed %.3f (GiB or count/2^30) and no cause", r.Name, r.Quantity, float64(*r.Low)/(1<<30), float64(*r.High)/(1<<30), float64(r.Want)/(1<<30))
			} else {
				t.Errorf("%s %s: %s, and no cause", r.Name, r.Quantity, r.Why)
			}
		}
	}
	t.Logf("%d of %d figures of 16 reports inside", inside, len(rows))
}
