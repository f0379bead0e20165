package measurement

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
	"floodmark/internal/source"
)

func readTraining(t *testing.T) *Stream {
	t.Helper()
	f, err := os.Open("testdata/training.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := ReadStream("training.jsonl", f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stream is lines behind the first one.
func stream(t *testing.T, lines ...string) *Stream {
	t.Helper()
	text := `{"v":1,"type":"process","mono_ns":1000,"pid":7,"host":"alpha","python":"3.14.0","phases":true}` + "\n" + strings.Join(lines, "\n") + "\n"
	s, err := ReadStream("a stream", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A stream of a process that was killed: what ended is there with its six
// readings, what did not has what was read of it, and nothing is made up.
func TestReadStream(t *testing.T) {
	checklist.Covers(t, 3, 4, 12, 18, 79, 91, 123, 130)
	s := readTraining(t)
	want := Rank{Rank: 1, World: 3, PID: 71, Host: "alpha", Status: RankCut}
	if s.Process != want {
		t.Errorf("the process is %+v, want %+v", s.Process, want)
	}
	e := s.Environment
	if e.Python != "3.12.1" || e.PyTorch != "2.15.0" || e.Backend != "cuda 13.2" || e.Allocator != "native" || e.Settings != "max_split_size_mb:128" ||
		!reflect.DeepEqual(e.Extensions, []Version{{"transformers", "5.24.0"}}) || len(e.Devices) != 1 || *e.Devices[0].TotalBytes != 1000000 {
		t.Errorf("the environment is %+v", e)
	}
	var got []string
	for _, p := range s.Phases {
		got = append(got, string(p.ID)+" "+string(p.Status))
	}
	// The line with a bare NaN is no JSON, so its phase never ended.
	if list := strings.Join(got, ", "); list != "forward unfinished, forward completed, loss missing, backward unfinished" {
		t.Errorf("the phases are %s", list)
	}
	backward := s.Phases[3]
	if !backward.Inferred || backward.Start.Allocated == nil || *backward.Start.Allocated != 60 || backward.Peak.Allocated != nil || backward.Timed {
		t.Errorf("backward is %+v", backward)
	}
	captured := s.Phases[1]
	if captured.Device != -1 || !strings.Contains(captured.Note, "captured into a graph") || captured.Result.Loss != "nan" || *captured.Truncated != 4 || !captured.Nested {
		t.Errorf("the captured phase is %+v", captured)
	}
	if n := len(s.Warnings); n != 1 || s.Warnings[0].Code != "lines_not_understood" {
		t.Errorf("warnings: %v", s.Warnings)
	}
}

const forward = `{"v":1,"type":"end","mono_ns":5000,"id":1,"parent":null,"name":"forward","step":1,"seen":"hooked","inputs":{"tensors":[{"name":"ids","shape":[2,128],"dtype":"int64"}],"values":{"sequences":2,"kind":"text"},"sha256":"aa","given":"long"},"readings":"protocol",` +
	`"devices":[{"device":1,"start":{"allocated_bytes":100,"reserved_bytes":200},"peak":{"allocated_bytes":700,"reserved_bytes":900},"end":{"allocated_bytes":50,"reserved_bytes":900},"peak_since":"phase","device_free_bytes":990000,"device_total_bytes":1000000}],"status":"ok","duration_ns":3000,"result":{"loss":2.50,"sha256":null}}`

func TestPhaseOfALine(t *testing.T) {
	checklist.Covers(t, 11, 12, 17, 62, 84, 87)
	p := stream(t, forward).Phases[0]
	if p.ID != account.PhaseForward || p.Step != 1 || p.Device != 1 || p.Status != Completed || p.Duration != 3000 || p.Began != 2000 || p.Ended != 5000 {
		t.Errorf("the phase is %+v", p)
	}
	six := []int64{*p.Start.Allocated, *p.Start.Reserved, *p.Peak.Allocated, *p.Peak.Reserved, *p.End.Allocated, *p.End.Reserved}
	if !reflect.DeepEqual(six, []int64{100, 200, 700, 900, 50, 900}) {
		t.Errorf("the six readings are %v", six)
	}
	if n, known := p.End.Outside(); !known || n != 10000-900 {
		t.Errorf("outside the allocator: %d, %v", n, known)
	}
	if p.Input.SHA256 != "aa" || p.Input.Name != "long" || p.Input.Configured != nil || !reflect.DeepEqual(p.Input.Observed, map[string]int64{"sequences": 2}) {
		t.Errorf("the input is %+v", p.Input)
	}
	if !reflect.DeepEqual(p.Shapes, []Shape{{"ids", []int64{2, 128}, "int64"}}) || p.Result.Loss != "2.50" {
		t.Errorf("shapes %v, result %+v", p.Shapes, p.Result)
	}
}

func TestWhatIsNoStream(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "a text": "hello\n", "another log": `{"level":"info"}` + "\n", "a record": "{\n",
		"a line without its end": `{"v":1,"type":"process","mono_ns":1}`, "another type first": `{"v":1,"type":"exit"}` + "\n",
	} {
		if _, err := ReadStream(name, strings.NewReader(text)); !errors.Is(err, source.ErrNotThisFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error in the first pass stays an error of the series, however well a retry
// went.
func TestFailedFirstPass(t *testing.T) {
	checklist.Covers(t, 90, 95, 131)
	failed := strings.Replace(strings.Replace(forward, `"ok"`, `"out_of_memory"`, 1), `"duration_ns"`, `"error":{"type":"OutOfMemoryError","message":"CUDA out of memory."},"duration_ns"`, 1)
	m := Merge(Program, []*Stream{stream(t, failed, strings.Replace(forward, `"id":1`, `"id":2`, 1), `{"v":1,"type":"exit","mono_ns":9000}`)}, 0)
	m.Outcome = Outcome{Ended: true}
	if m.Complete() {
		t.Error("a run whose first pass failed is complete")
	}
	first := m.Accounts()[0].Phases[0]
	if first.Failed != "OutOfMemoryError: CUDA out of memory." {
		t.Errorf("the failure is %q", first.Failed)
	}
	peak := first.Peak(account.Allocated).Figure
	if _, known := peak.High(); known || peak.Low() != 700 {
		t.Errorf("the peak of a failed phase is %+v, want at least 700", peak)
	}
}

func FuzzReadStream(f *testing.F) {
	data, err := os.ReadFile("testdata/training.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(forward + "\n"))
	f.Add([]byte(`{"v":1,"type":"process","mono_ns":-9223372036854775808,"rank":99999999,"world_size":99999999}` + "\n" + forward + "\n" + `{"v":1,"type":"exit","mono_ns":9,"devices":[{"device":-4,"peak":{"allocated_bytes":-1}}]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadStream("fuzz", strings.NewReader(string(data)))
		if err != nil {
			return
		}
		m := Merge(Program, []*Stream{s}, 0)
		m.Check()
		for _, a := range m.Accounts() {
			for _, p := range a.Phases {
				for _, peak := range p.Peaks {
					if peak.Figure.Low() < 0 {
						t.Errorf("a peak of %d bytes", peak.Figure.Low())
					}
				}
			}
		}
	})
}

// A process may be killed at any byte of its stream: every phase whose line was
// written is there, and the one that had begun is unfinished.
func TestCutAtEveryByte(t *testing.T) {
	data, err := os.ReadFile("testdata/training.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data) + "\n" + forward + "\n"
	for at := strings.IndexByte(text, '\n') + 1; at <= len(text); at++ {
		written := text[:at]
		s, err := ReadStream("cut", strings.NewReader(written))
		if err != nil {
			t.Fatalf("cut at byte %d: %v", at, err)
		}
		want := 0
		for line := range strings.Lines(written) {
			if strings.HasSuffix(line, "\n") && strings.Contains(line, `"type":"end"`) && strings.Contains(line, `"status":"ok"`) && !strings.Contains(line, "NaN") {
				want++
			}
		}
		got := 0
		for _, p := range s.Phases {
			if p.Status == Completed {
				got++
			}
		}
		if got != want {
			t.Errorf("cut at byte %d: %d phases completed, want %d", at, got, want)
		}
	}
}

// A stream may repeat anything as often as it likes: what is kept of it has a
// bound of each kind, and the record says how much is left out.
func TestStreamBounds(t *testing.T) {
	const lines = 30_000
	for _, c := range []struct{ name, line, left string }{
		{"notes", `{"v":1,"type":"note","code":"a","text":"%d"}`, "warnings_left_out"},
		{"snapshots", `{"v":1,"type":"snapshot","path":"/a/%d"}`, "warnings_left_out"},
		{"devices", `{"v":1,"type":"device","device":%d}`, ""},
		{"extensions", `{"v":1,"type":"torch","torch":"2.15.0","extensions":[{"name":"e%d"}]}`, ""},
		{"ended", `{"v":1,"type":"end","id":%d,"name":"forward","status":"ok"}`, "phases_left_out"},
		{"failed", `{"v":1,"type":"end","id":%d,"name":"forward","status":"failed"}`, "phases_left_out"},
		{"unfinished", `{"v":1,"type":"begin","id":%d,"name":"forward"}`, "phases_left_out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list []string
			for i := range lines {
				list = append(list, fmt.Sprintf(c.line, i))
			}
			m := Merge(Program, []*Stream{stream(t, list...)}, 0)
			e := m.Environment
			if len(m.Phases) > maxPhases+1 || len(m.Warnings) > maxRemarks+3 || len(e.Devices) > maxRemarks || len(e.Extensions) > maxRemarks {
				t.Errorf("%d phases, %d warnings, %d devices, %d extensions", len(m.Phases), len(m.Warnings), len(e.Devices), len(e.Extensions))
			}
			if said := slices.ContainsFunc(m.Warnings, func(w account.Warning) bool { return w.Code == c.left }); said != (c.left != "") {
				t.Errorf("%q was said: %v", c.left, said)
			}
		})
	}
}
