//go:build linux && (amd64 || arm64) && !nonvml

package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"floodmark/account"
	"floodmark/device"
)

// patience is how long the library is waited for. A card that fell off the bus
// can hold it for ever.
const patience = 10 * time.Second

// reader is a [device.Reader] through the library.
type reader struct {
	functions functions
	driver    device.Driver
	devices   []device.Device
	handles   []handle // of each device
	turn      chan struct{}
	stuck     atomic.Bool // somebody gave up waiting for the library, which has not come back since
}

// Open loads the library and lists the devices. It fails where there is no
// driver, and where the library says so.
func Open(ctx context.Context) (device.Reader, error) { return open(ctx, paths()) }

func open(ctx context.Context, paths []string) (device.Reader, error) {
	r := &reader{turn: make(chan struct{}, 1)}
	var failed error
	err := r.within(ctx, func() { failed = r.start(paths) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *reader) start(paths []string) error {
	var err error
	if r.functions, err = load(paths); err != nil {
		return err
	}
	if s := r.functions.init(); s != success {
		return fmt.Errorf("NVML could not be started: %s", s)
	}
	r.driver = r.readDriver()
	return r.list()
}

// within runs one piece of work with the library, after those that others asked
// for, and gives it up when the context or the patience ends. A library that was
// given up is not asked anything else before it has come back.
func (r *reader) within(ctx context.Context, work func()) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	if r.stuck.Load() {
		return errors.New("NVML does not answer")
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return fmt.Errorf("NVML did not answer within %s", patience)
	}
	done := make(chan error, 1)
	go func() {
		var failed error
		defer func() {
			if p := recover(); p != nil {
				failed = fmt.Errorf("NVML: %v", p)
			}
			<-r.turn
			done <- failed
		}()
		work()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		r.abandon(done)
		return ctx.Err()
	case <-limit.C:
		r.abandon(done)
		return fmt.Errorf("NVML did not answer within %s", patience)
	}
}

// abandon notes that the library is stuck until it comes back.
func (r *reader) abandon(done <-chan error) {
	r.stuck.Store(true)
	go func() {
		<-done
		r.stuck.Store(false)
	}()
}

// Source is the library's name.
func (r *reader) Source() string { return "NVML" }

// Driver is NVIDIA's.
func (r *reader) Driver() device.Driver { return r.driver }

// Devices lists cards and MIG instances.
func (r *reader) Devices() []device.Device { return slices.Clone(r.devices) }

// Read reads one device now.
func (r *reader) Read(ctx context.Context, index int) device.Memory {
	now := time.Now()
	if index < 0 || index >= len(r.handles) {
		return device.UnknownMemory(now, "there is no such device on this machine")
	}
	if r.handles[index] == 0 {
		return device.UnknownMemory(now, cmp.Or(r.devices[index].KindReason, "NVML gives no handle of this device"))
	}
	result := make(chan device.Memory, 1)
	if err := r.within(ctx, func() { result <- r.memory(r.handles[index]) }); err != nil {
		return device.UnknownMemory(now, err.Error())
	}
	m := <-result
	m.At = now
	return m
}

// Close ends the use of the library.
func (r *reader) Close() error {
	return r.within(context.Background(), func() {
		if r.functions.shutdown != nil {
			r.functions.shutdown()
		}
	})
}

func observed(counter string) account.Provenance {
	return account.Provenance{Origin: account.Observed, Scope: account.Device, Counter: counter}
}
