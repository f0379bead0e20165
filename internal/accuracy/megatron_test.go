package accuracy

import "testing"

// Each run is predicted today as it was committed.
func TestMegatronRows(t *testing.T) {
	rows, err := Megatron()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if e, known := r.errorOf(); known {
			t.Logf("%-75s %-30s %+7.2f %% %d %s", r.Name, r.Quantity, 100*e, *r.Low-r.Want, r.Status())
		} else {
			t.Logf("%-75s %-30s %s", r.Name, r.Quantity, r.Why)
		}
	}
	t.Log(scoreOf(rows))
}
