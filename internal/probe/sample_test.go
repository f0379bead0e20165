package probe

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"floodmark/device"
	"floodmark/device/devicetest"
	"floodmark/device/owners"
	"floodmark/internal/checklist"
	"floodmark/measurement"
)

// hostTable is a table of processes whose numbers are those of the drivers.
func hostTable(t *testing.T) owners.Table {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "self/ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pid:[4026531836]", filepath.Join(root, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	return owners.Open(root)
}

// sampled is a measurement of one phase in this process, with what a sampler saw
// of made-up devices while it ran.
func sampled(t *testing.T, reader *devicetest.Reader, devices []measurement.Device) (measurement.Phase, *Sampler) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	s := sample(reader, hostTable(t), time.Millisecond)
	began := monotonic()
	for reads := reader.Reads(0); reader.Reads(0) < reads+5; {
		time.Sleep(time.Millisecond)
	}
	ended := monotonic()
	for reads := reader.Reads(0); reader.Reads(0) < reads+2; {
		time.Sleep(time.Millisecond)
	}
	s.Stop()
	m := &measurement.Measurement{
		Environment: measurement.Environment{Devices: devices},
		Ranks:       []measurement.Rank{{Rank: -1, PID: os.Getpid(), Host: host}},
		Phases:      []measurement.Phase{{Device: 0, Began: began, Ended: ended}},
	}
	s.Attach(m)
	return m.Phases[0], s
}

// A device is sampled from before the program starts; the highest sample within
// a phase is kept, of the device and of the process.
func TestSampler(t *testing.T) {
	checklist.Covers(t, 61, 62)
	me := os.Getpid()
	reader := &devicetest.Reader{List: []device.Device{{UUID: "GPU-aa"}, {UUID: "GPU-bb"}},
		Readings: map[int][]device.Memory{
			0: {devicetest.Memory(100000, 0, nil), devicetest.Memory(100000, 0, map[int]int64{me: 500, 1: 40}), devicetest.Memory(100000, 0, map[int]int64{me: 500, 1: 40})},
			1: {devicetest.Memory(100000, 0, map[int]int64{me: 90000})},
		}}
	p, _ := sampled(t, reader, []measurement.Device{{Index: 0, UUID: "aa"}})
	if p.Sampled.Device == nil || *p.Sampled.Device != 540 || p.Sampled.Process == nil || *p.Sampled.Process != 500 || p.Sampled.Count < 4 {
		t.Errorf("sampled %+v", p.Sampled)
	}
	if p.End.Process == nil || *p.End.Process != 500 {
		t.Errorf("around the end the process held %v", p.End.Process)
	}
}

// What cannot be resolved is not known, and says why.
func TestNotSampled(t *testing.T) {
	one := []device.Device{{UUID: "GPU-aa"}}
	for _, c := range []struct {
		name    string
		reader  *devicetest.Reader
		devices []measurement.Device
		want    string
	}{
		{"another process", &devicetest.Reader{List: one, Readings: map[int][]device.Memory{0: {devicetest.Memory(1000, 0, map[int]int64{1: 40})}}}, nil,
			"the driver lists other processes and not this one, as it does in a container, where the numbers of processes differ"},
		{"no process", &devicetest.Reader{List: one, Readings: map[int][]device.Memory{0: {devicetest.Memory(1000, 0, nil)}}}, nil,
			"the driver lists no processes here, as in a container"},
		{"nothing is read", &devicetest.Reader{List: one, Readings: map[int][]device.Memory{0: {device.UnknownMemory(time.Now(), "no permission")}}}, nil, "the driver lists no processes here, as in a container"},
		{"one of two", &devicetest.Reader{List: []device.Device{{UUID: "GPU-aa"}, {UUID: "GPU-bb"}},
			Readings: map[int][]device.Memory{0: {devicetest.Memory(1000, 0, nil)}}}, []measurement.Device{{Index: 0}},
			"it is not known which device of the driver this is: no UUID and no place on the bus is known to both"},
	} {
		p, _ := sampled(t, c.reader, c.devices)
		if p.Sampled.Process != nil || p.End.Process != nil || p.Sampled.Why != c.want {
			t.Errorf("%s: %+v", c.name, p.Sampled)
		}
	}
}

// Between two samples nothing is known: a phase that fits there has none.
func TestShortPhaseHasNoSample(t *testing.T) {
	me := os.Getpid()
	reader := &devicetest.Reader{List: []device.Device{{UUID: "GPU-aa"}}, Readings: map[int][]device.Memory{0: {devicetest.Memory(1000, 0, map[int]int64{me: 7})}}}
	_, s := sampled(t, reader, nil)
	tick := s.ticks[0][3]
	p := measurement.Phase{Device: 0, Began: tick + 1, Ended: tick + 2}
	s.attach(&p, 0, me)
	if p.Sampled.Process != nil || p.Sampled.Device != nil || p.Sampled.Count != 0 || p.Sampled.Why != "no sample fell into the phase" {
		t.Errorf("sampled %+v", p.Sampled)
	}
	if p.End.Process == nil || *p.End.Process != 7 {
		t.Errorf("around its end the process held %v", p.End.Process)
	}
}

// An unchanged level costs nothing to keep.
func TestTrackKeepsChanges(t *testing.T) {
	var k track
	for i := range int64(1000) {
		k.set(i, 5)
	}
	k.set(1000, 6)
	if len(k.bytes) != 2 || k.since[1] != 1000 {
		t.Errorf("kept %v since %v", k.bytes, k.since)
	}
}
