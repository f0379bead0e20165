package device_test

import (
	"context"
	"testing"
	"time"

	"floodmark/device"
	"floodmark/device/devicetest"
)

// A watch reads each device at once, keeps the order, and ends with its context.
func TestWatch(t *testing.T) {
	const gib = 1 << 30
	r := &devicetest.Reader{Readings: map[int][]device.Memory{
		0: {devicetest.Memory(24*gib, gib, nil), devicetest.Memory(24*gib, gib, map[int]int64{7: 5 * gib})},
		2: {devicetest.Memory(80*gib, 0, nil)},
	}}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var order []int
	var used []int64
	device.Watch(ctx, r, []int{0, 2}, time.Millisecond, func(s device.Sample) {
		order = append(order, s.Index)
		n, _ := s.Used.IsExact()
		used = append(used, n)
		if s.At.IsZero() {
			t.Error("a sample without its time")
		}
		if len(order) == 6 {
			stop()
		}
	})
	for i, want := range []struct {
		index int
		used  int64
	}{{0, 0}, {2, 0}, {0, 5 * gib}, {2, 0}, {0, 5 * gib}, {2, 0}} {
		if order[i] != want.index || used[i] != want.used {
			t.Errorf("sample %d is of device %d with %d bytes used, want %+v", i, order[i], used[i], want)
		}
	}
	if len(order) != 6 {
		t.Errorf("%d samples, and 6 came before the end", len(order))
	}
}

// A watch whose context has ended takes no sample.
func TestWatchEnded(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	device.Watch(ctx, &devicetest.Reader{}, []int{0}, time.Second, func(device.Sample) { t.Error("a sample after the end") })
}
