package device

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/bytesize"
)

func all(t *testing.T) []Card {
	t.Helper()
	cards, err := Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	return cards
}

func TestCatalogueIsWhole(t *testing.T) {
	cards := all(t)
	if len(cards) != 148 {
		t.Errorf("%d cards, the records have 148", len(cards))
	}
	seen := map[string]bool{}
	readings, slots := 0, 0
	for _, c := range cards {
		if c.ID == "" || c.Vendor == "" || seen[c.ID] {
			t.Errorf("card %q: an id is missing or there twice, or there is no vendor", c.ID)
		}
		seen[c.ID] = true
		readings += len(c.Readings)
		slots += len(c.MIG)
		if len(c.Sources) == 0 {
			t.Errorf("%s has no source", c.ID)
		}
		for _, r := range c.Readings {
			if r.Bytes.Source == "" || r.Bytes.Counter == "" {
				t.Errorf("%s: a reading without counter or source", c.ID)
			}
		}
	}
	if readings != 353 || slots != 48 {
		t.Errorf("%d readings and %d slices, the records have 353 and 48", readings, slots)
	}
}

// An end of a capacity is an end of something that was reported, or follows
// from one by a rule that the source states; a label never becomes one.
func TestCapacityIsNeverTheLabel(t *testing.T) {
	for _, c := range all(t) {
		for _, platform := range []Platform{Linux, WSL, Windows, UnknownPlatform} {
			f := c.Reported(platform)
			top, known := f.High()
			if !known {
				if f.Low() == 0 && len(c.of(RuntimeTotal, everywhere))+len(c.of(DriverTotal, everywhere)) > 0 {
					t.Errorf("%s on %s is unknown though something was reported", c.ID, platform)
				}
				continue
			}
			ends := map[int64]bool{}
			for _, r := range c.Readings {
				ends[r.Bytes.Low()], ends[high(r.Bytes)] = true, true
			}
			byRule := f.Origin == account.Fitted
			if !ends[top] || (!ends[f.Low()] && !byRule) || f.Low() > top {
				t.Errorf("%s on %s: %d to %d bytes are not what was reported", c.ID, platform, f.Low(), top)
			}
		}
	}
}

func TestReported(t *testing.T) {
	for _, c := range []struct {
		id        string
		platform  Platform
		low, high string // MiB, one decimal
	}{
		{"rtx-4090", Linux, "24091.1", "24222.7"},
		{"rtx-4090", WSL, "24560.6", "24564.5"}, // rounding above the driver's total is cut
		{"rtx-4090", UnknownPlatform, "24091.1", "24564.5"},
		{"h100-sxm5-80gb", Linux, "81078.8", "81081.5"},
		{"tesla-t4", Windows, "15359.5", "16215.0"},    // with ECC on, and off: wholly above the driver's total, and kept
		{"a10", Linux, "21317.4", "23028.5"},           // driver's total only
		{"rtx-3060-ti-8gb", Linux, "7583.2", "8192.5"}, // only read on Windows
		{"gaudi2", Linux, "0.0", "98304.5"},            // no Intel card has both totals
	} {
		card, err := Find(c.id)
		if err != nil {
			t.Fatal(err)
		}
		f := card.Reported(c.platform)
		low, top := bytesize.Fixed(f.Low(), bytesize.MiB, 1), bytesize.Fixed(high(f), bytesize.MiB, 1)
		if low != c.low || top != c.high {
			t.Errorf("%s on %s: %s to %s MiB, want %s to %s", c.id, c.platform, low, top, c.low, c.high)
		}
	}
	for _, id := range []string{"gaudi3", "w7900", "apple-8gb"} {
		card, err := Find(id)
		if err != nil {
			t.Fatal(err)
		}
		if f := card.Reported(Linux); f.Known() || f.Reason() == "" {
			t.Errorf("%s: nobody reported its capacity, yet it is known", id)
		}
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"h100":                    "h100-80gb-unspecified",
		"H100 SXM5":               "h100-sxm5-80gb",
		"rtx 4090":                "rtx-4090",
		"RTX-4090 laptop":         "rtx-4090-laptop-16gb",
		"4090":                    "rtx-4090",
		"NVIDIA GeForce RTX 5090": "rtx-5090",
		"A100-80":                 "a100-80gb-unspecified",
		"a100 sxm4 80gb":          "a100-sxm4-80gb",
		"t4":                      "tesla-t4",
		"L4":                      "l4",
		"A6000":                   "rtx-a6000",
		"H100 SXM":                "h100-sxm5-80gb", // letters stand for a word that ends in digits
		"h100 pcie":               "h100-pcie-80gb",
		"a100 sxm 80g":            "a100-sxm4-80gb",
		"H200 SXM5":               "h200-sxm", // by its form factor
		"b200 sxm":                "b200-sxm",
		"RTX4090":                 "rtx-4090", // without any separator
		"rtx4080super":            "rtx-4080-super",
		"4070ti":                  "rtx-4070-ti",
		"mi300x":                  "mi300x",
	} {
		card, err := Find(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if card.ID != want {
			t.Errorf("%s is %s, want %s", name, card.ID, want)
		}
	}
}

// Whoever says "A100-80" has not said which: the capacity covers them all.
func TestFormFactorLeftOpen(t *testing.T) {
	open, err := Find("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	sxm, err := Find("a100-sxm4-80gb")
	if err != nil {
		t.Fatal(err)
	}
	if high(open.Reported(Linux)) < high(sxm.Reported(Linux)) {
		t.Error("an A100 of unknown form factor cannot be an SXM4")
	}
}

func TestFindSaysWhichCards(t *testing.T) {
	for _, c := range []struct {
		name      string
		ambiguous bool
		candidate string
	}{
		{"a100", true, "a100-sxm4-40gb"},
		{"rtx 3080", true, "rtx-3080-12gb"},
		{"rtx 4091", false, "rtx-4090"},
		{"hl00", false, "h100-80gb-unspecified"},
		{"h100 sxn5", false, "h100-sxm5-80gb"},
		{"geforce 5900", false, "rtx-5090"},
		{"a100 sxm", true, "a100-sxm4-80gb"},
		{"", false, "l4"},
		{strings.Repeat("rtx ", 1000) + "z", false, ""},
	} {
		_, err := Find(c.name)
		var e *NameError
		if !errors.As(err, &e) {
			t.Errorf("%.20q: %v", c.name, err)
			continue
		}
		if e.Ambiguous != c.ambiguous || len(e.Candidates) == 0 ||
			(c.candidate != "" && !slices.Contains(e.Candidates, c.candidate)) {
			t.Errorf("%.20q: %v", c.name, e)
		}
	}
}

// Whoever asks for several cards is told that each is judged alone; a number
// that belongs to a name is no such question.
func TestFindOneCardOnly(t *testing.T) {
	for name, want := range map[string]int{
		"2x h100": 2, "8 x h100": 8, "8xH100": 8, "4 × A100": 4, "h100 x8": 8, "H100*2": 2, "2 a100-80": 2, "mi300x x 8": 8,
		"rx 560": 0, "9999 h900": 0,
	} {
		_, err := Find(name)
		var e *NameError
		if !errors.As(err, &e) || e.Count != want {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want > 0 && (!strings.Contains(e.Error(), "one by one") || !strings.Contains(e.Hint(), "tensor_parallel")) {
			t.Errorf("%s: %v, hint %q", name, err, e.Hint())
		}
	}
}

// A capacity is the name of no card: those that are sold with it are listed. A number
// that stands in a name for something else is no capacity.
func TestCapacityIsNoName(t *testing.T) {
	for name, want := range map[string]string{
		"24GB": "rtx-4090", "24 GiB": "rtx-4090", "24g": "l4", "24": "rtx-3090", "24.0GB": "a10", "80GB": "h100-sxm5-80gb", "80": "h100-sxm5-80gb", "192gb": "mi300x",
	} {
		_, err := Find(name)
		var e *NameError
		if !errors.As(err, &e) || !e.Capacity || !slices.Contains(e.Candidates, want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(e.Error(), "is a capacity and no card") || !strings.Contains(e.Hint(), e.Example) || !strings.Contains(e.Hint(), "--capacity") {
			t.Errorf("%s: %v, hint %q", name, e, e.Hint())
		}
	}
	var e *NameError
	if _, err := Find("23GB"); !errors.As(err, &e) || !e.Capacity || len(e.Candidates) > 0 || !strings.Contains(e.Hint(), "--capacity") {
		t.Errorf("23GB: %v", err)
	}
	for _, name := range []string{"4090", "3090", "apple 24gb", "apple-24gb", "h100 80"} {
		if _, err := Find(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The example in a hint is a name that works.
func TestHintNamesACard(t *testing.T) {
	for _, name := range []string{"a100", "rtx 3080", "v100", "a100 sxm", "4060 ti", "jetson orin"} {
		_, err := Find(name)
		var e *NameError
		if !errors.As(err, &e) || !e.Ambiguous {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := Find(e.Example); err != nil || !strings.Contains(e.Hint(), e.Example) {
			t.Errorf("%s: the example %q gives %v, hint %q", name, e.Example, err, e.Hint())
		}
	}
}

// A card chosen among several says which others its name could mean.
func TestNote(t *testing.T) {
	for name, want := range map[string][]string{
		"h100":           {"h100-80gb-unspecified", "covers what h100-pcie-80gb and h100-sxm5-80gb reported", "could also mean h100-nvl-94gb:"},
		"4090":           {"taken for rtx-4090;", "rtx-4090-laptop-16gb"},
		"rtx-4090":       nil,
		"h100 sxm":       nil,
		"h100-sxm5-80gb": nil,
		"RTX 5090":       nil,
	} {
		c, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil && c.Note != "" {
			t.Errorf("%s left no choice, yet %q", name, c.Note)
		}
		for _, part := range want {
			if !strings.Contains(c.Note, part) {
				t.Errorf("%s: %q does not say %q", name, c.Note, part)
			}
		}
	}
}

// A low that no card reported is fitted, and its rule is stated.
func TestLowRule(t *testing.T) {
	for id, want := range map[string]struct {
		fitted, bounded bool
		says            string
	}{
		"a100-pcie-80gb": {true, true, "the driver's total × "},
		"gaudi2":         {true, false, "nothing bounds the low"},
		"rtx-4090":       {false, true, "largest loss"},
	} {
		c, err := Find(id)
		if err != nil {
			t.Fatal(err)
		}
		f := c.Reported(UnknownPlatform)
		rule, bounded := c.LowRule()
		if (f.Origin == account.Fitted) != want.fitted || bounded != want.bounded || !strings.Contains(rule, want.says) {
			t.Errorf("%s: origin %s, bounded %v, %s", id, f.Origin, bounded, rule)
		}
	}
}

// No card reports more than its label in GiB, but for the rounding of a
// reading: what the box calls GB is at most GiB. It is no bound in GB.
func TestLabelInGiB(t *testing.T) {
	const rounding = 1<<30/20 + 1 // the coarsest reading has one decimal of a GiB
	aboveGB := 0
	for _, c := range all(t) {
		label, known := c.LabelBytes.IsExact()
		top, reported := c.Reported(UnknownPlatform).High()
		if !known || !reported {
			continue
		}
		if top > label/bytesize.GB.Bytes()*bytesize.GiB.Bytes()+rounding {
			t.Errorf("%s reports up to %d bytes, its label is %d GB", c.ID, top, label/bytesize.GB.Bytes())
		}
		if top > label {
			aboveGB++
		}
	}
	if aboveGB == 0 {
		t.Error("no card reports more than its label in GB of 10⁹ bytes")
	}
}

func TestMalformedCatalogueIsAnError(t *testing.T) {
	for _, text := range []string{
		"reading\truntime_total\t\t1\t2\tc\ts\n",
		"card\ta\n",
		"card\ta\tv\tn\tmany\t\t\t\t\t\t\n",
		"card\ta\tv\tn\t1\t\t\t\t\t\t\nreading\tk\t\tx\t2\tc\ts\n",
		"card\ta\tv\tn\t1\t\t\t\t\t\t\nslice\tp\t1\tx\ts\n",
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
