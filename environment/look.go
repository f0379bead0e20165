package environment

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"floodmark/device"
	"floodmark/device/owners"
)

// Options are what to look at, and how.
type Options struct {
	Devices   device.Reader
	Processes owners.Table
	Environ   []string      // "NAME=value"; what programs will be started with
	Python    string        // path of the interpreter; empty for the first on PATH
	Patience  time.Duration // for each question to Python
	// Device is one device as a program names it: "cuda:0", a UUID or its
	// beginning; empty for none in particular.
	Device string
	// Init asks for a context on that device, or on the first, to measure its cost.
	Init bool
}

// Report is what was found. Whatever could not be asked is missing in it, with
// the reason.
type Report struct {
	Source     string // through what the devices were read
	Driver     device.Driver
	Devices    []Device
	Container  bool // processes have other numbers here than the driver gives them
	Python     Python
	Backend    device.Backend // PyTorch's; empty where it has none
	Allocator  Allocator
	Visibility device.Visibility
	Variables  []device.Variable // that decide which devices programs see, and what they can take
	// Selected is the index of the device that was asked for; −1 where none was,
	// or where it is not known.
	Selected int
	Notes    []device.Note
	Context  *Context // nil unless it was asked for
}

// Device is one device with what it held and who held it.
type Device struct {
	device.Device
	Memory  device.Memory
	Owners  []owners.Owner
	Ordinal int // as programs number it: 1 is cuda:1; −1 where they do not see it, or nobody can say
	// Unsure reports that programs see devices of which nobody can say which they
	// are: this may be one.
	Unsure bool
}

// Look reads devices, variables and Python. It fails only where the context has
// ended, or Options.Device is no device's name.
func Look(ctx context.Context, o Options) (Report, error) {
	r := Report{Source: o.Devices.Source(), Driver: o.Devices.Driver(), Container: !o.Processes.Host(), Selected: -1}
	wanted, err := parseDevice(o.Device)
	if err != nil {
		return r, err
	}
	if r.Python, err = askPython(ctx, o.Python, o.Environ, o.Patience); err != nil {
		return r, err
	}
	r.Backend = backend(r.Python.Torch)
	devices := o.Devices.Devices()
	r.Visibility = device.Visible(devices, r.runtime(devices), o.Environ)
	r.Notes = append(r.Notes, r.Visibility.Notes...)
	var notes []device.Note
	environ := variables(o.Environ)
	r.Variables = append(r.Visibility.Variables, set(environ, runtimeNames())...)
	r.Allocator, notes = readAllocator(r.Python.Torch, environ)
	r.Notes = append(r.Notes, notes...)
	r.Notes = append(r.Notes, device.Misspelt(o.Environ, settingNames(), nil)...)
	for i, d := range devices {
		m := o.Devices.Read(ctx, i)
		ordinal := slices.Index(r.Visibility.Indexes, i)
		unsure := ordinal < 0 && d.Vendor == "NVIDIA" && slices.Contains(r.Visibility.Indexes, -1)
		r.Devices = append(r.Devices, Device{Device: d, Memory: m, Owners: o.Processes.Owners(m), Ordinal: ordinal, Unsure: unsure})
	}
	r.notice()
	r.choose(wanted)
	if o.Init {
		c, err := r.makeContext(ctx, o, wanted)
		if err != nil {
			return r, err
		}
		r.Context = &c
	}
	return r, ctx.Err()
}

func variables(environ []string) map[string]string {
	all := map[string]string{}
	for _, v := range environ {
		if name, value, ok := strings.Cut(v, "="); ok {
			all[name] = value
		}
	}
	return all
}

// backend is what PyTorch was built for.
func backend(t Torch) device.Backend {
	switch {
	case t.HIP != "":
		return device.HIP
	case t.CUDA != "":
		return device.CUDA
	}
	return ""
}

// runtime is whose variables count: PyTorch's backend, and without one that of
// the only vendor there is.
func (r Report) runtime(devices []device.Device) device.Backend {
	if r.Backend != "" {
		return r.Backend
	}
	other := func(d device.Device) bool { return d.Vendor != "AMD" }
	if len(devices) > 0 && !slices.ContainsFunc(devices, other) {
		return device.HIP
	}
	return device.CUDA
}

// wanted is the device that somebody asked for.
type wanted struct {
	text    string
	ordinal int    // as programs number it; −1 for one by UUID, or none
	uuid    string // the beginning of one
}

// reDevice is a device as programs name it.
var reDevice = regexp.MustCompile(`^(?:cuda|hip)(?::(\d{1,4}))?$`)

// DeviceNameError is a name that no device can have.
type DeviceNameError struct{ Name string }

// Error says what a name looks like.
func (e *DeviceNameError) Error() string {
	return fmt.Sprintf("%q is no device: name one as programs do, cuda:0, or by its UUID, GPU-… or MIG-…", e.Name)
}

func parseDevice(text string) (wanted, error) {
	w := wanted{text: text, ordinal: -1}
	switch m := reDevice.FindStringSubmatch(text); {
	case text == "":
	case m != nil:
		w.ordinal, _ = strconv.Atoi(m[1]) // "cuda" alone is the first
	case strings.HasPrefix(text, "GPU-") || strings.HasPrefix(text, "MIG-"):
		w.uuid = text
	default:
		return w, &DeviceNameError{text}
	}
	return w, nil
}

func (r *Report) note(code, format string, args ...any) {
	r.Notes = append(r.Notes, device.Note{Code: code, Text: fmt.Sprintf(format, args...)})
}

// choose finds the device that was asked for.
func (r *Report) choose(w wanted) {
	switch {
	case w.text == "":
		return
	case w.ordinal >= len(r.Visibility.Indexes):
		r.note("device_missing", "programs see %s here, and so no %s", count(len(r.Visibility.Indexes)), w.text)
	case w.ordinal >= 0:
		if r.Selected = r.Visibility.Indexes[w.ordinal]; r.Selected < 0 {
			r.note("device_unknown", "which card %s is cannot be told from outside", w.text)
		}
	default:
		for i, d := range r.Devices {
			if strings.HasPrefix(d.UUID, w.uuid) {
				if r.Selected >= 0 {
					r.note("device_unknown", "%s begins the UUID of several devices", w.text)
					r.Selected = -1
					return
				}
				r.Selected = i
			}
		}
		if r.Selected < 0 {
			r.note("device_missing", "no device here has the UUID %s", w.text)
		}
	}
}

func count(devices int) string {
	switch devices {
	case 0:
		return "no device"
	case 1:
		return "1 device"
	}
	return fmt.Sprintf("%d devices", devices)
}

// makeContext measures a context on the chosen device, or says why it cannot.
func (r *Report) makeContext(ctx context.Context, o Options, w wanted) (Context, error) {
	ordinal := max(w.ordinal, 0)
	if w.uuid != "" && r.Selected >= 0 {
		ordinal = r.Devices[r.Selected].Ordinal
	}
	if why := r.noContext(w, ordinal); why != "" {
		return unknownContext(why), nil
	}
	return measureContext(ctx, o, r.Visibility, r.Python.Asked, ordinal)
}

// noContext is why no context can be made, empty where one can.
func (r *Report) noContext(w wanted, ordinal int) string {
	t := r.Python.Torch
	switch {
	case r.Python.Asked == "" || r.Python.Version == "":
		return "no Python could be asked: " + r.Python.Problem
	case !t.Found && t.Problem == "":
		return "PyTorch is missing"
	case !t.Found:
		return "no PyTorch is known: " + t.Problem
	case !t.Imported:
		return "PyTorch cannot be imported: " + t.Problem
	case r.Backend == "":
		return "this PyTorch is built for the CPU only"
	case w.uuid != "" && (r.Selected < 0 || ordinal < 0):
		return "programs do not see " + w.text
	}
	return ""
}
