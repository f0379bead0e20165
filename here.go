package floodmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/device"
	"floodmark/device/machine"
	"floodmark/parallel"
)

// ErrNoDevice is a machine on which programs see no device.
var ErrNoDevice = errors.New("no device is visible here")

// Here is the devices that programs see on this machine, in their order: cuda:0
// is the first.
type Here struct {
	Platform device.Platform
	Cards    []device.Card    // of the catalogue by the name that the driver gives, else as the driver describes it
	Free     []account.Figure // of each, as it was read; whoever uses the rest
	Warnings []account.Warning
}

// Visible reads the devices that programs see which are started with these
// variables ("NAME=value"; nil for this process's own). It creates no context on
// any of them.
func Visible(ctx context.Context, environ []string) (*Here, error) {
	if environ == nil {
		environ = os.Environ()
	}
	m := machine.Open(ctx)
	defer m.Close()
	h, err := visible(ctx, m, environ)
	if err != nil {
		return nil, err
	}
	h.Platform = m.Platform
	if len(h.Cards) == 0 {
		var reasons []string
		for _, w := range h.Warnings {
			reasons = append(reasons, w.Text)
		}
		for _, a := range m.Tried {
			if len(m.Devices()) == 0 { // else there are devices, and a variable hides them
				reasons = append(reasons, a.Source+": "+a.Reason)
			}
		}
		return nil, fmt.Errorf("%w: %s", ErrNoDevice, strings.Join(reasons, "; "))
	}
	return h, nil
}

// visible reads the devices of a reader. Of which backend they are is told by
// their vendor, for no Python is asked.
func visible(ctx context.Context, r device.Reader, environ []string) (*Here, error) {
	cards, err := device.Catalogue()
	if err != nil {
		return nil, err
	}
	devices := r.Devices()
	backend := device.CUDA
	if len(devices) > 0 && !slices.ContainsFunc(devices, func(d device.Device) bool { return d.Vendor != "AMD" }) {
		backend = device.HIP
	}
	seen := device.Visible(devices, backend, environ)
	h := &Here{}
	for _, n := range seen.Notes {
		h.Warnings = append(h.Warnings, account.Warning{Code: n.Code, Text: n.Text})
	}
	for _, i := range seen.Indexes {
		if i < 0 {
			return nil, &SettingsError{errors.New("which card is which cannot be told from outside: the cards are unlike; set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the ones that are meant by UUID in CUDA_VISIBLE_DEVICES")}
		}
		d, memory := devices[i], r.Read(ctx, i)
		h.Cards = append(h.Cards, described(cards, d, memory))
		h.Free = append(h.Free, memory.Free)
		if d.Kind == device.WDDM || d.Kind == device.Unified {
			h.Warnings = append(h.Warnings, account.Warning{Code: "memory_" + string(d.Kind), Text: fmt.Sprintf("cuda:%d, %s: %s; what is free of it changes with what else runs", len(h.Cards)-1, d.Name, d.KindReason)})
		}
	}
	return h, nil
}

// described is the catalogue's card of the name that the driver gives, of several
// the one whose label is nearest to the total; without one, what the driver says
// of it.
func described(cards []device.Card, d device.Device, m device.Memory) device.Card {
	total := m.Total.Low()
	distance := func(c device.Card) int64 {
		n := c.LabelBytes.Low() - total
		return max(n, -n)
	}
	var best *device.Card
	for i, c := range cards {
		if d.Partition == nil && c.Name != "" && c.Name == d.Name && (best == nil || distance(c) < distance(*best)) {
			best = &cards[i]
		}
	}
	if best != nil {
		return *best
	}
	own := device.Card{Vendor: d.Vendor, Name: d.Name, ComputeCapability: d.ComputeCapability, Arch: architectureOf(cards, d.ComputeCapability)}
	own.Readings = []device.Reading{{Kind: device.DriverTotal, Bytes: m.Total}}
	return own
}

// architectureOf is that of the catalogue's cards of one compute capability;
// empty where there is none.
func architectureOf(cards []device.Card, capability string) string {
	for _, c := range cards {
		if capability != "" && c.ComputeCapability == capability {
			return c.Arch
		}
	}
	return ""
}

// Under puts the visible devices under the ranks of a request: the first rank is
// on the first. Ranks that share layers on unlike cards are not predicted.
func (h *Here) Under(r *Request) error {
	used := r.Workload.Mesh.Ranks()
	if used > len(h.Cards) {
		return &parallel.NotSupportedError{Rule: fmt.Sprintf("the layout takes %d devices, and programs see %d here", used, len(h.Cards))}
	}
	for i, c := range h.Cards[:used] {
		if c.Name != h.Cards[0].Name || c.ID != h.Cards[0].ID {
			return &SettingsError{fmt.Errorf("cuda:0 is %s and cuda:%d is %s: ranks on unlike cards are not predicted; name cards of one kind in CUDA_VISIBLE_DEVICES", h.Cards[0].Label(), i, c.Label())}
		}
	}
	r.Card, r.Platform, r.Devices, r.Here = &h.Cards[0], h.Platform, len(h.Cards), true
	r.Free = map[int]account.Figure{}
	for i, free := range h.Free {
		if h.Cards[i].Name == h.Cards[0].Name && h.Cards[i].ID == h.Cards[0].ID {
			r.Free[i] = free
		} else {
			r.Devices = min(r.Devices, i) // a layout of more ranks would be on unlike cards
		}
	}
	r.Warnings = append(r.Warnings, h.Warnings...)
	return nil
}
