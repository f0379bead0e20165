package device

import (
	"slices"
	"strings"

	"floodmark/account"
)

// Kind says what a reading counts.
type Kind string

const (
	DriverTotal   Kind = "driver_total"   // all that the driver manages: nvidia-smi, rocm-smi
	DriverReserve Kind = "driver_reserve" // what the driver keeps of it for itself
	RuntimeTotal  Kind = "runtime_total"  // the total that a program sees: cudaMemGetInfo, torch's total_memory
	Limit         Kind = "limit"          // a limit that software sets on top, not the card's own
)

// Platform is where a program runs.
type Platform string

const (
	Linux           Platform = "linux"
	WSL             Platform = "wsl"
	Windows         Platform = "windows"
	UnknownPlatform Platform = "unknown"
)

// windowsOrWSL is how a reading is tagged: the two report alike.
const windowsOrWSL = "windows_or_wsl"

// Reading is one public report. Its figure is the interval of the printed
// number's rounding, with counter and source. Platform is "linux",
// "windows_or_wsl", or empty where the report does not say.
type Reading struct {
	Kind     Kind
	Platform string
	Bytes    account.Figure
}

// Slice is one size that a card can be partitioned into (NVIDIA MIG). Bytes
// are unknown where only the profile's name was seen.
type Slice struct {
	Profile string
	Bytes   account.Figure
}

// Card is one product.
type Card struct {
	ID                string // "rtx-4090"; stable
	Vendor            string
	Name              string         // as the driver reports it; may be empty
	LabelBytes        account.Figure // what is printed on the box, GB read as 10⁹; never a capacity
	Arch              string
	ComputeCapability string // "9.0", "gfx942"; may be empty
	FormFactor        string // may be empty
	Readings          []Reading
	MIG               []Slice
	Sources           []string
	Missing           string // what nobody has reported yet, and why; may be empty
	// Note says, of a card that [Find] chose among several, what the name could
	// also mean; empty where it left no choice.
	Note string

	reserve reserve
}

// Unified reports memory that the card shares with the operating system and all
// other programs, so that none of it is the card's own.
func (c Card) Unified() bool { return strings.Contains(c.FormFactor, "unified") }

func (c *Card) addSource(source string) {
	if source != "" && !slices.Contains(c.Sources, source) {
		c.Sources = append(c.Sources, source)
	}
}

// DriverTotal is what the driver reported, between the lowest and the highest
// report; unknown where there is none.
func (c Card) DriverTotal() account.Figure {
	return span(c.of(DriverTotal, everywhere), "no report of the driver's total")
}

// of lists the known readings of one kind from the platforms that a test
// admits. Readings rounded to more than 6 MiB either way are left out as soon
// as there is a finer one.
func (c Card) of(kind Kind, admits func(platform string) bool) []account.Figure {
	const coarse = 12 << 20
	var all, fine []account.Figure
	for _, r := range c.Readings {
		high, known := r.Bytes.High()
		if r.Kind != kind || !known || !admits(r.Platform) {
			continue
		}
		all = append(all, r.Bytes)
		if high-r.Bytes.Low() <= coarse {
			fine = append(fine, r.Bytes)
		}
	}
	if len(fine) > 0 {
		return fine
	}
	return all
}

func everywhere(string) bool              { return true }
func onWindows(platform string) bool      { return platform == windowsOrWSL }
func maybeOnLinux(platform string) bool   { return platform != windowsOrWSL }
func maybeOnWindows(platform string) bool { return platform != string(Linux) }

// span is the interval from the lowest to the highest of some readings. Its
// source names both ends.
func span(readings []account.Figure, missing string) account.Figure {
	if len(readings) == 0 {
		return account.Unknown(missing, account.Provenance{Scope: account.Device})
	}
	lowest, highest := readings[0], readings[0]
	for _, r := range readings[1:] {
		if r.Low() < lowest.Low() {
			lowest = r
		}
		if high(r) > high(highest) {
			highest = r
		}
	}
	p := lowest.Provenance
	if highest.Source != lowest.Source {
		p.Source = lowest.Source + " (lowest), " + highest.Source + " (highest)"
	}
	if highest.Counter != lowest.Counter {
		p.Counter = lowest.Counter + ", " + highest.Counter
	}
	return account.Between(lowest.Low(), high(highest), p)
}

// high is the high of a figure that is known to have one.
func high(f account.Figure) int64 {
	bytes, _ := f.High()
	return bytes
}
