package smi

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"floodmark/account"
	"floodmark/device"
	"floodmark/internal/child"
)

// patience is how long one nvidia-smi is waited for: it takes seconds where no
// other program keeps the driver awake.
const patience = 20 * time.Second

// reader is a [device.Reader] through the program.
type reader struct {
	path    string
	fields  []string // that this release knows
	driver  device.Driver
	devices []device.Device
}

// Open finds nvidia-smi and lists the cards. It fails where the program is
// missing or says that it cannot.
func Open(ctx context.Context) (device.Reader, error) {
	for _, name := range []string{"nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"} {
		if path, err := exec.LookPath(name); err == nil {
			return open(ctx, path)
		}
	}
	return nil, errors.New("there is no nvidia-smi on PATH")
}

func open(ctx context.Context, path string) (device.Reader, error) {
	r := &reader{path: path}
	list, known, err := r.cards(ctx, fields())
	if err != nil {
		return nil, err
	}
	r.fields = known
	for _, card := range list {
		r.driver.Version = card.text("driver_version")
		d := described(card)
		r.devices = append(r.devices, d)
	}
	r.driver.Runtime = r.runtime(ctx)
	if slices.ContainsFunc(r.devices, func(d device.Device) bool { return d.Partitioned }) {
		r.instances(ctx)
	}
	return r, nil
}

// run asks nvidia-smi one thing.
func (r *reader) run(ctx context.Context, args ...string) ([]byte, error) {
	result, err := child.Run(ctx, child.Program{Path: r.path, Args: args, Timeout: patience})
	switch {
	case err != nil:
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	case result.Ended() != "":
		return result.Stdout, fmt.Errorf("nvidia-smi %s: %s", result.Ended(), firstLine(result.Stdout, result.Stderr))
	}
	return result.Stdout, nil
}

// firstLine is the first that a program said.
func firstLine(streams ...[]byte) string {
	for _, s := range streams {
		if line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(s), "")), "\n"); line != "" {
			return fmt.Sprintf("%.200s", line)
		}
	}
	return "it said nothing"
}

// cards asks for fields of every card, and gives those that the release knows: it
// names the one that it does not, one at a time.
func (r *reader) cards(ctx context.Context, fields []string) ([]row, []string, error) {
	for len(fields) > 0 {
		out, err := r.run(ctx, "--query-gpu="+strings.Join(fields, ","), "--format=csv,noheader,nounits")
		m := reNoField.FindSubmatch(out)
		switch {
		case err != nil && m != nil && slices.Contains(fields, string(m[1])):
			fields = slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f == string(m[1]) })
		case err != nil:
			return nil, nil, err
		default:
			list := rows(out, fields)
			if len(list) == 0 {
				return nil, nil, fmt.Errorf("nvidia-smi lists no card: %s", firstLine(out))
			}
			return list, fields, nil
		}
	}
	return nil, nil, errors.New("nvidia-smi knows no field that is asked for")
}

func described(card row) device.Device {
	d := device.Device{Vendor: "NVIDIA", Name: card.text("name"), UUID: card.text("uuid"), PCI: busID(card.text("pci.bus_id")),
		ComputeCapability: card.text("compute_cap"), ComputeMode: strings.ToLower(card.text("compute_mode")), Kind: device.Discrete,
		Partitioned: card.text("mig.mode.current") == "Enabled"}
	d.Card, _ = strconv.Atoi(card.text("index"))
	switch {
	case card.text("driver_model.current") == "WDDM":
		d.Kind, d.KindReason = device.WDDM, "the driver's model is WDDM"
	case strings.EqualFold(card["memory.total"], "[N/A]") || strings.EqualFold(card["memory.total"], "[Not Supported]"):
		d.Kind, d.KindReason = device.Unified, "nvidia-smi reports no memory of the card's own ("+printed(card["memory.total"])+")"
	case strings.HasPrefix(card["memory.total"], "["):
		d.Kind, d.KindReason = device.KindUnsaid, "nvidia-smi memory.total: "+printed(card["memory.total"])
	}
	return d
}

// busID is the PCI address as Linux writes it, with four digits of domain.
func busID(id string) string {
	id = strings.ToLower(id)
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return id
}

// reRuntime is the newest CUDA of the driver, as nvidia-smi --version prints it.
var reRuntime = regexp.MustCompile(`(?i)CUDA Version\s*:\s*(\d{1,3}\.\d{1,2})`)

func (r *reader) runtime(ctx context.Context) string {
	out, err := r.run(ctx, "--version")
	if m := reRuntime.FindSubmatch(out); err == nil && m != nil {
		return string(m[1])
	}
	return ""
}

// instances adds the MIG instances behind their cards. This program tells their
// names only.
func (r *reader) instances(ctx context.Context) {
	out, err := r.run(ctx, "-L")
	if err != nil {
		return
	}
	card := -1
	for line := range strings.Lines(string(out)) {
		m := reInstance.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[1] != "" {
			card, _ = strconv.Atoi(m[1])
			continue
		}
		last := -1
		for i, d := range r.devices {
			if d.Card == card {
				last = i
			}
		}
		if last < 0 {
			continue
		}
		d := r.devices[last]
		name, _, _ := strings.Cut(d.Name, " MIG ")
		d.Name, d.UUID, d.Kind, d.KindReason, d.Partitioned = name+" MIG "+m[2], m[3], device.MIG, "a MIG instance", false
		d.Partition = &device.Partition{Profile: m[2], GPUInstance: -1, ComputeInstance: -1}
		r.devices = slices.Insert(r.devices, last+1, d)
	}
}

// Source is the program's name.
func (r *reader) Source() string { return "nvidia-smi" }

// Driver is NVIDIA's.
func (r *reader) Driver() device.Driver { return r.driver }

// Devices lists cards and MIG instances.
func (r *reader) Devices() []device.Device { return slices.Clone(r.devices) }

// Close has nothing to end.
func (r *reader) Close() error { return nil }

// noInstance is why the memory of a MIG instance is not known.
const noInstance = "nvidia-smi does not print the memory of a MIG instance in this form"

// Read reads one device now.
func (r *reader) Read(ctx context.Context, index int) device.Memory {
	now := time.Now()
	switch {
	case index < 0 || index >= len(r.devices):
		return device.UnknownMemory(now, "there is no such device on this machine")
	case r.devices[index].Partition != nil:
		return device.UnknownMemory(now, noInstance)
	}
	list, _, err := r.cards(ctx, r.fields)
	if err != nil {
		return device.UnknownMemory(now, err.Error())
	}
	m := device.UnknownMemory(now, "nvidia-smi does not list this card any more")
	for _, card := range list {
		if card.text("index") == strconv.Itoa(r.devices[index].Card) {
			m = memory(now, card)
			m.Processes, m.NoProcesses = r.processes(ctx, r.devices[index].UUID)
		}
	}
	return m
}

// memory is the reading in a card's line.
func memory(at time.Time, card row) device.Memory {
	return device.Memory{At: at,
		Total: card.bytes("memory.total", account.Device), Reserved: card.bytes("memory.reserved", account.Device),
		Free: card.bytes("memory.free", account.Device), Used: card.bytes("memory.used", account.Device)}
}

// processes lists those that compute on a card; of those that draw, nvidia-smi
// prints no list in this form.
func (r *reader) processes(ctx context.Context, uuid string) ([]device.Process, string) {
	columns := []string{"gpu_uuid", "pid", "used_memory"}
	out, err := r.run(ctx, "--query-compute-apps="+strings.Join(columns, ","), "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err.Error()
	}
	var list []device.Process
	for _, line := range rows(out, columns) {
		pid, err := strconv.Atoi(line["pid"])
		if err != nil || pid <= 0 || line["gpu_uuid"] != uuid {
			continue
		}
		list = append(list, device.Process{PID: pid, Bytes: line.bytes("used_memory", account.Process)})
	}
	return list, ""
}
