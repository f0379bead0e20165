package solve

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"floodmark/fit"
	"floodmark/internal/checklist"
)

// steps is a judge that fits up to fits, cannot tell up to open, and does not
// fit beyond.
func steps(fits, open int64) Judge {
	return func(_ context.Context, v int64) (fit.Verdict, error) {
		switch {
		case v <= fits:
			return fit.Verdict{Value: fit.Fits}, nil
		case v <= open:
			return fit.Verdict{Value: fit.CannotTell, Reasons: []string{"open"}}, nil
		}
		return fit.Verdict{Value: fit.DoesNotFit, Reasons: []string{"too much"}}, nil
	}
}

func TestLargest(t *testing.T) {
	for _, c := range []struct {
		name                   string
		fits, open, low, high  int64
		wantValue, wantOpen    int64
		wantAt, wantLimitation fit.Value
	}{
		{"in the middle", 700, 900, 1, 1000, 700, 900, fit.Fits, fit.CannotTell},
		{"an exact estimate has no open values", 700, 700, 1, 1000, 700, 700, fit.Fits, fit.DoesNotFit},
		{"everything fits", 2000, 2000, 1, 1000, 1000, 1000, fit.Fits, fit.Fits},
		{"nothing fits", 0, 0, 1, 1000, -1, -1, fit.DoesNotFit, fit.DoesNotFit},
		{"nobody can tell", 0, 2000, 1, 1000, -1, 1000, fit.CannotTell, fit.CannotTell},
		{"one value", 5, 5, 5, 5, 5, 5, fit.Fits, fit.Fits},
	} {
		s, err := Largest(context.Background(), c.low, c.high, steps(c.fits, c.open))
		if err != nil || s.Value != c.wantValue || s.Open != c.wantOpen || s.At.Value != c.wantAt || s.Limit.Value != c.wantLimitation {
			t.Errorf("%s: %+v, %v", c.name, s, err)
		}
	}
}

func TestLargestAsksSeldom(t *testing.T) {
	asked := 0
	judge := func(ctx context.Context, v int64) (fit.Verdict, error) {
		asked++
		return steps(123_456, 234_567)(ctx, v)
	}
	if _, err := Largest(context.Background(), 1, 1<<20, judge); err != nil {
		t.Fatal(err)
	}
	// Two ends of 20 halvings each, and a step to either side.
	if asked > 2*20+8 {
		t.Errorf("asked %d times", asked)
	}
}

// A caching allocator needs less for one position more here and there: the answer is
// below the places where it is so, and what cannot be excluded above them.
func TestLargestBesideAPlaceThatGoesBackAndForth(t *testing.T) {
	judge := func(_ context.Context, v int64) (fit.Verdict, error) {
		switch {
		case v < 50 || v == 51:
			return fit.Verdict{Value: fit.Fits}, nil
		case v < 70 || v == 71:
			return fit.Verdict{Value: fit.CannotTell}, nil
		}
		return fit.Verdict{Value: fit.DoesNotFit}, nil
	}
	for high := int64(72); high < 200; high++ {
		s, err := Largest(context.Background(), 1, high, judge)
		if err != nil || s.Value != 49 || s.Open != 71 {
			t.Fatalf("up to %d: %d and %d, %v", high, s.Value, s.Open, err)
		}
	}
}

func TestLargestRefuses(t *testing.T) {
	zigzag := func(_ context.Context, v int64) (fit.Verdict, error) {
		if v%2 == 0 {
			return fit.Verdict{Value: fit.Fits}, nil
		}
		return fit.Verdict{Value: fit.DoesNotFit}, nil
	}
	if _, err := Largest(context.Background(), 0, 1<<40+1, zigzag); err == nil || !strings.Contains(err.Error(), "not monotone") {
		t.Errorf("a judge that goes up and down: %v", err)
	}
	broken := errors.New("broken")
	if _, err := Largest(context.Background(), 0, 10, func(context.Context, int64) (fit.Verdict, error) { return fit.Verdict{}, broken }); !errors.Is(err, broken) {
		t.Errorf("a judge that fails: %v", err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Largest(cancelled, 0, 10, steps(5, 5)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search: %v", err)
	}
	if _, err := Largest(context.Background(), 10, 1, steps(5, 5)); err == nil {
		t.Error("no values were searched")
	}
}

func TestLargestIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Int64Range(0, 50).Draw(t, "low")
		high := rapid.Int64Range(low, 5000).Draw(t, "high")
		fits := rapid.Int64Range(-1, 6000).Draw(t, "fits")
		open := rapid.Int64Range(fits, 7000).Draw(t, "open")
		s, err := Largest(context.Background(), low, high, steps(fits, open))
		if err != nil {
			t.Fatal(err)
		}
		want := func(limit int64) int64 {
			if limit < low {
				return -1
			}
			return min(limit, high)
		}
		if s.Value != want(fits) || s.Open != want(open) {
			t.Fatalf("%+v, want %d and %d", s, want(fits), want(open))
		}
	})
}

func TestPayloads(t *testing.T) {
	checklist.Covers(t, 193, 195)
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct{ room, payload, count, left int64 }{
		{38 * gib, 320 * mib, 121, 192 * mib},
		{38_000_000_000, 320 * mib, 113, 38_000_000_000 - 113*320*mib},
		{38 * gib, 360 * mib, 108, 32 * mib},
		{0, 1, 0, 0},
	} {
		if count, left, err := Payloads(c.room, c.payload); err != nil || count != c.count || left != c.left {
			t.Errorf("%d bytes hold %d of %d and leave %d (%v); want %d and %d", c.room, count, c.payload, left, err, c.count, c.left)
		}
	}
	if _, _, err := Payloads(1, 0); err == nil {
		t.Error("a payload of nothing")
	}
}
