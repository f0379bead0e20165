package device

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/checklist"
)

func TestSlicesByName(t *testing.T) {
	c, err := Find("A100-SXM4-80GB:3g.40gb")
	if err != nil {
		t.Fatal(err)
	}
	// 40,192 MiB as NVML gives it, to the MiB.
	f := c.Reported(Linux)
	if top, known := f.High(); !known || top != 42_144_890_880 || f.Low() >= top || f.Origin != account.Fitted {
		t.Errorf("the slice reports %d to %d (%s)", f.Low(), top, f.Origin)
	}
	if c.ComputeCapability != "8.0" || c.ID != "a100-sxm4-80gb:3g.40gb" {
		t.Errorf("%+v", c)
	}
	for _, name := range []string{"a100-sxm4-80gb:9g.90gb", "rtx-4090:1g.5gb", "nonesuch:1g.5gb", ":", "a100-sxm4-80gb:"} {
		var n *NameError
		if _, err := Find(name); !errors.As(err, &n) || len(n.Candidates) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A card that the catalogue lacks is what its owner read of it.
func TestDeclaredCards(t *testing.T) {
	checklist.Covers(t, 126)
	total := account.Exact(12_345_678_901, account.Provenance{})
	known, err := Find("h100-sxm5-80gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Card{Declared(total), known.WithTotal(total)} {
		for _, platform := range []Platform{Linux, WSL, Windows, UnknownPlatform} {
			if n, exact := c.Reported(platform).IsExact(); !exact || n != 12_345_678_901 {
				t.Errorf("%s on %s reports %d, %v", c.ID, platform, n, exact)
			}
		}
	}
}

func TestRequirements(t *testing.T) {
	for _, c := range []struct {
		card           string
		format         dtype.Format
		engine         string
		lacks, refused bool
	}{
		{"tesla-t4", dtype.BF16, "serving", true, true},
		{"tesla-t4", dtype.BF16, "eager", true, false},
		{"tesla-t4", dtype.F16, "serving", false, false},
		{"a100-sxm4-80gb", dtype.BF16, "serving", false, false},
		{"a100-sxm4-80gb", dtype.F8E4M3, "eager", true, true},
		{"rtx-4090", dtype.F8E4M3, "eager", false, false},
		{"b200-sxm", dtype.F8E4M3, "eager", false, false},
		{"mi300x", dtype.F8E4M3, "eager", false, false}, // no compute capability of NVIDIA's
		{"rtx-3080-ti", dtype.F8E4M3, "eager", false, false},
	} {
		card, err := Find(c.card)
		if err != nil {
			t.Fatal(err)
		}
		if _, refused, lacks := card.Lacks(c.format, c.engine); lacks != c.lacks || refused != c.refused {
			t.Errorf("%s in %s for %s: lacks %v, refused %v", c.card, c.format, c.engine, lacks, refused)
		}
	}
}

// The profiles that are offered are names that can be given, each once.
func TestOfferedSlices(t *testing.T) {
	_, err := Find("a100-sxm4-80gb:9g.99gb")
	var name *NameError
	if !errors.As(err, &name) || len(name.Candidates) < 5 {
		t.Fatalf("%v", err)
	}
	for i, c := range name.Candidates {
		if slices.Contains(name.Candidates[:i], c) {
			t.Errorf("%s is offered twice", c)
		}
		if _, err := Find(c); err != nil || strings.Contains(c, " ") {
			t.Errorf("%q is offered: %v", c, err)
		}
	}
}
