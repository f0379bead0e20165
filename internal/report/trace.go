package report

import (
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

//go:embed assets/trace.html
var tracePage string

//go:embed assets/trace.css
var traceStyle string

//go:embed assets/trace.js
var traceScript string

// Trace is a recorded trace as one page shows it: curves at several levels of
// detail, and the largest allocations one by one.
type Trace struct {
	Title   string
	Summary []string // sentences
	Notes   []string // what a reader must be told
	Text    string   // the same as text
	Devices []TraceDevice
}

// TraceDevice is one device. Entries are indexes of the trace, counted from 0;
// −1 is before the first, or never. Lists are not nil.
type TraceDevice struct {
	Label      string       `json:"label"`
	Entries    int          `json:"entries"`
	Top        int64        `json:"top"`  // highest level of any curve, in bytes
	Peak       int          `json:"peak"` // entry after which requested bytes stand highest
	PeakBytes  int64        `json:"peak_bytes"`
	Categories []Category   `json:"categories"`
	Levels     []TraceLevel `json:"levels"` // coarse to fine; none where nothing was recorded
	Phases     []TracePhase `json:"phases"`
	Largest    []TraceAlloc `json:"largest"`
	Stacks     [][]int      `json:"stacks"` // indexes into Frames, innermost first
	Frames     []string     `json:"frames"`
}

// Category is a category with its place among all categories, by which it has
// the same colour on every page.
type Category struct {
	Name  string `json:"name"`
	Place int    `json:"place"`
}

// TracePhase is a named part of the trace.
type TracePhase struct {
	Name  string `json:"name"`
	First int    `json:"first"` // entry
	Last  int    `json:"last"`
}

// TraceLevel is the curves in so many buckets.
type TraceLevel struct {
	First    Figures `json:"first"`    // entry at which each bucket begins
	High     Figures `json:"high"`     // requested, highest in the bucket
	Reserved Figures `json:"reserved"` // highest in the bucket
	Shares   Figures `json:"shares"`   // by bucket and category, at the bucket's highest moment
}

// TraceAlloc is one allocation.
type TraceAlloc struct {
	Bytes    int64 `json:"bytes"`
	Born     int   `json:"born"`
	Freed    int   `json:"freed"`
	Category int   `json:"category"` // index into Categories
	Stack    int   `json:"stack"`    // index into Stacks, −1 for none
}

// Figures is a list of byte counts, written as 64-bit floats in base64: a third
// of the length of decimal text, and exact below 2⁵³.
type Figures []int64

// MarshalJSON writes little-endian floats in base64.
func (f Figures) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 8*len(f))
	for i, n := range f {
		binary.LittleEndian.PutUint64(raw[8*i:], math.Float64bits(float64(n)))
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(raw))
}

// TraceHTML writes the page: one file that fetches nothing.
func TraceHTML(w io.Writer, t Trace) error {
	// json.Marshal escapes <, > and &, so that no text can end the element.
	data, err := json.Marshal(map[string]any{"devices": t.Devices})
	if err != nil {
		return err
	}
	var summary strings.Builder
	for _, sentence := range t.Summary {
		summary.WriteString("<p>" + html.EscapeString(sentence) + "</p>\n")
	}
	shown := 0
	for _, d := range t.Devices {
		shown += len(d.Largest)
	}
	notes := ""
	for _, note := range t.Notes {
		notes += "<li>" + html.EscapeString(note) + "</li>\n"
	}
	// One pass, so that no text is looked at twice. A replacer and not a
	// template: templates call methods by name, which keeps every method of every
	// type in the program and makes it a third larger.
	_, err = strings.NewReplacer(
		"{{title}}", html.EscapeString(t.Title),
		"{{summary}}", summary.String(),
		"{{notes}}", notes,
		"{{text}}", html.EscapeString(t.Text),
		"{{shown}}", fmt.Sprint(shown),
		"{{style}}", traceStyle,
		"{{script}}", traceScript,
		"{{data}}", string(data),
	).WriteString(w, tracePage)
	return err
}
