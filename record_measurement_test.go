package floodmark

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/fit"
	"floodmark/internal/checklist"
	"floodmark/measurement"
	"floodmark/record"
)

// measuredStream is a measurement of one phase on one device.
func measuredStream(t *testing.T, subject measurement.Subject, lines ...string) *measurement.Measurement {
	t.Helper()
	text := `{"v":1,"type":"process","mono_ns":1000,"pid":7,"host":"alpha","rank":0,"python":"3.14.0","phases":true}
{"v":1,"type":"device","mono_ns":1200,"device":0,"name":"A card","uuid":"1234","total_bytes":1000000,"allocator":{"backend":"cudaMallocAsync","settings":{},"peak_reserved":"upper_bound"}}
{"v":1,"type":"end","mono_ns":5000,"id":1,"name":"forward","step":1,"pass":"first","seen":"hooked","readings":"protocol","devices":[{"device":0,"start":{"allocated_bytes":0,"reserved_bytes":200},"peak":{"allocated_bytes":700,"reserved_bytes":900},"end":{"allocated_bytes":50,"reserved_bytes":300},"device_free_bytes":990000,"device_total_bytes":1000000}],"status":"ok","duration_ns":0}
` + strings.Join(lines, "\n")
	s, err := measurement.ReadStream("a stream", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return measurement.Merge(subject, []*measurement.Stream{s}, 0)
}

// A record that is read back says the same of memory as on the day it was
// written: nulls, real zeros and bounds included.
func TestMeasurementRecordRoundTrip(t *testing.T) {
	checklist.Covers(t, 19, 21, 73, 91)
	for _, subject := range []measurement.Subject{measurement.Lab, measurement.Program} {
		m := measuredStream(t, subject, `{"v":1,"type":"begin","mono_ns":6000,"id":2,"name":"backward","step":1,"seen":"hooked","devices":[{"device":0,"start":{"allocated_bytes":60,"reserved_bytes":300}}]}`+"\n")
		path := filepath.Join(t.TempDir(), "run.json")
		if err := record.Create(path, measurementEvidence{m}.Record(record.Tool{Version: "test"})); err != nil {
			t.Fatal(err)
		}
		evidence, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, want := evidence.Accounts(), m.Accounts()
		if len(got) != 1 || len(want) != 1 || got[0].Subject != want[0].Subject || got[0].Device != 0 || !reflect.DeepEqual(got[0].Ranks, []int{0}) {
			t.Fatalf("accounts %+v, want %+v", got, want)
		}
		for i := range want[0].Phases {
			a, b := got[0].Phases[i], want[0].Phases[i]
			if a.ID != b.ID || a.Step != b.Step || a.Failed != b.Failed || !reflect.DeepEqual(a.Start, b.Start) || !reflect.DeepEqual(a.End, b.End) || !reflect.DeepEqual(a.Peaks, b.Peaks) {
				t.Errorf("%s: phase %+v, want %+v", subject, a, b)
			}
		}
	}
}

// Missing is null and a real 0 stays 0; the counters keep their names and bytes.
func TestMeasurementNulls(t *testing.T) {
	checklist.Covers(t, 91)
	data, err := json.Marshal(measurementEvidence{measuredStream(t, measurement.Program)}.Record(record.Tool{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"start":{"allocated_bytes":0,"reserved_bytes":200,"device_bytes":null`, `"process_bytes":null`, `"duration_ns":0`, `"pass":"first"`,
		`"peak":{"allocated_bytes":700,"reserved_bytes":null,"reserved_low_bytes":700,"reserved_high_bytes":900}`, `"outside_bytes":9700`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the record lacks %s in %s", want, data)
		}
	}
}

// The lab proves nothing of a workload, whatever the card.
func TestLabIsNoEvidence(t *testing.T) {
	checklist.Covers(t, 111, 125, 161)
	budgets := fit.Budgets{0: {Card: "a card", Capacity: account.Exact(1<<40, account.Provenance{}), Others: account.Zero("", account.Provenance{})}}
	v := fit.Decide(fit.Measured, measuredStream(t, measurement.Lab).Accounts(), budgets)
	if v.Value != fit.CannotTell || !strings.Contains(strings.Join(v.Reasons, " "), "the lab's small network is no evidence for a workload") {
		t.Errorf("the verdict is %+v", v)
	}
}

// A program whose process was not seen whole cannot fit either: reserved is not
// all that it holds.
func TestReservedAloneProvesNoFit(t *testing.T) {
	budgets := fit.Budgets{0: {Card: "a card", Capacity: account.Exact(1<<40, account.Provenance{}), Others: account.Zero("", account.Provenance{})}}
	if v := fit.Decide(fit.Measured, measuredStream(t, measurement.Program).Accounts(), budgets); v.Value != fit.CannotTell {
		t.Errorf("the verdict is %+v", v)
	}
	budgets[0] = fit.Budget{Card: "a card", Capacity: account.Exact(600, account.Provenance{}), Others: account.Zero("", account.Provenance{})}
	if v := fit.Decide(fit.Measured, measuredStream(t, measurement.Program).Accounts(), budgets); v.Value != fit.DoesNotFit {
		t.Errorf("on a card that is too small the verdict is %+v", v)
	}
}

func TestLabRequestIsChecked(t *testing.T) {
	checklist.Covers(t, 115, 118)
	good := LabRequest{Device: "cuda:0", Batch: 1, Context: 16, Width: 64, Dtype: "float32", Warmup: 0, Repeats: 1}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*LabRequest){
		"no device": func(r *LabRequest) { r.Device = "" }, "a CPU": func(r *LabRequest) { r.Device = "cpu" }, "an option": func(r *LabRequest) { r.Device = "--help" },
		"no batch": func(r *LabRequest) { r.Batch = 0 }, "no repetition": func(r *LabRequest) { r.Repeats = 0 }, "a format of none": func(r *LabRequest) { r.Dtype = "half" },
	} {
		r := good
		change(&r)
		if r.check() == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}
