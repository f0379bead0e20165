package floodmark

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"floodmark/internal/source"
	"floodmark/record"
)

// The page stands alone: it fetches nothing, and no text of the snapshot can
// become part of it.
func TestPageStandsAlone(t *testing.T) {
	evidence, err := Open("testdata/snapshots/training_step.pickle")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteHTML(&b, evidence, record.Tool{}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, forbidden := range []string{"http://", "https://", "src=", "@import", "fetch(", "XMLHttpRequest"} {
		if strings.Contains(page, forbidden) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
	if !strings.Contains(page, "3,781,165,056") {
		t.Error("the page lacks the figures as text")
	}
}

// hostile is a snapshot in JSON of so many allocations, each with frames of its
// own whose text tries to end the page's elements.
func hostile(t *testing.T, allocations int) source.Source {
	t.Helper()
	var trace []map[string]any
	for i := range allocations {
		frames := []map[string]any{}
		for f := range 8 {
			frames = append(frames, map[string]any{"filename": fmt.Sprintf("</script><script>alert(%d)//%s.py", i, strings.Repeat("x", 300)), "name": fmt.Sprintf("<img src=x onerror=%d-%d>\u202e\u009b", i, f), "line": f})
		}
		trace = append(trace, map[string]any{"action": "alloc", "addr": 512 * (i + 1), "size": 512, "stream": 0, "frames": frames})
	}
	data, err := json.Marshal(map[string]any{"segments": []any{}, "device_traces": []any{trace}})
	if err != nil {
		t.Fatal(err)
	}
	return source.Bytes("hostile.json", data)
}

func TestPageIsBoundedAndEscaped(t *testing.T) {
	evidence, err := OpenSource(hostile(t, 5000))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteHTML(&b, evidence, record.Tool{}); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 5_000_000 {
		t.Errorf("the page has %d bytes", b.Len())
	}
	if page := b.String(); strings.ContainsAny(page, "\u202e\u009b") || strings.Contains(page, "<img") || strings.Count(page, "</script>") != 2 {
		t.Error("a frame's text became part of the page")
	}
}

// A card on which nothing was recorded has a place of its own, and does not
// hide those behind it; and the page's peak is the record's, entry and bytes.
func TestPageHasEveryDevice(t *testing.T) {
	text := `{"segments": [
		{"device": 0, "address": 1048576, "total_size": 2097152, "stream": 0, "segment_type": "small", "blocks": [
			{"size": 1024, "requested_size": 1000, "address": 1048576, "state": "active_allocated"},
			{"size": 2096128, "requested_size": 0, "address": 1049600, "state": "inactive"}]},
		{"device": 2, "address": 1048576, "total_size": 2097152, "stream": 0, "segment_type": "small", "blocks": [
			{"size": 2097152, "requested_size": 2097000, "address": 1048576, "state": "active_allocated"}]}],
		"device_traces": [
			[{"action": "segment_alloc", "addr": 1048576, "size": 2097152, "stream": 0}, {"action": "alloc", "addr": 1048576, "size": 1000, "stream": 0}],
			[],
			[{"action": "snapshot", "addr": 0, "size": 0, "stream": 0}]]}`
	evidence, err := OpenSource(source.Bytes("three.json", []byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteHTML(&b, evidence, record.Tool{}); err != nil {
		t.Fatal(err)
	}
	_, data, _ := strings.Cut(b.String(), `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var page struct {
		Devices []struct {
			Label     string
			Entries   int
			Peak      int
			PeakBytes int64 `json:"peak_bytes"`
			Levels    []any
			Largest   []any
		}
	}
	if err := json.Unmarshal([]byte(data), &page); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(data, "null") || len(page.Devices) != 3 {
		t.Fatalf("%d devices in %s", len(page.Devices), data)
	}
	first, idle, last := page.Devices[0], page.Devices[1], page.Devices[2]
	if first.Peak != 1 || first.PeakBytes != 1000 || len(first.Levels) == 0 {
		t.Errorf("cuda:0 is %+v", first)
	}
	if len(idle.Levels) != 0 || len(idle.Largest) != 0 || len(last.Largest) != 1 {
		t.Errorf("cuda:1 is %+v, cuda:2 is %+v", idle, last)
	}
}

func TestOnlySnapshotsHaveAPage(t *testing.T) {
	evidence, err := Open("testdata/oom/exhaustion.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteHTML(&bytes.Buffer{}, evidence, record.Tool{}); !errors.Is(err, ErrNoPage) {
		t.Errorf("an out-of-memory text: %v", err)
	}
}
