package device

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Backend is whose runtime a program uses; PyTorch calls both torch.cuda.
type Backend string

const (
	CUDA Backend = "cuda"
	HIP  Backend = "hip"
)

// Visibility is which devices a program sees, and in which order.
type Visibility struct {
	// Indexes are those of the devices, in the program's order: cuda:0 is the
	// first. −1 stands for a device that the program sees of which nobody can say
	// which it is.
	Indexes []int
	// Variables are those of the environment that decide, as they stand there.
	Variables []Variable
	// Notes say what a person should know of them: names that are misspelt,
	// entries that end the list.
	Notes []Note
}

// Variable is one of the environment's.
type Variable struct{ Name, Value string }

// Note is something to tell about the environment.
type Note struct {
	Code string // lower_snake_case
	Text string // a sentence
}

// The variables by which runtimes choose devices.
const (
	cudaVisible = "CUDA_VISIBLE_DEVICES"
	cudaOrder   = "CUDA_DEVICE_ORDER"
	hipVisible  = "HIP_VISIBLE_DEVICES"
	rocrVisible = "ROCR_VISIBLE_DEVICES"
)

// Visible says which of a machine's devices a program sees that is started with
// these variables ("NAME=value", as os.Environ lists them) and whose runtime is
// CUDA's or HIP's.
//
// CUDA's rules are those of its documentation
// (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html)
// and, where that is silent, of PyTorch's own reading of it
// (https://github.com/pytorch/pytorch/blob/v2.8.0/torch/cuda/__init__.py):
// not set is all devices and empty is none; the first entry that names no device
// ends the list; one that comes twice leaves none. A program gets one MIG
// instance at most, and then no whole card
// (https://docs.nvidia.com/datacenter/tesla/mig-user-guide/). Numbers count from
// the fastest card unless CUDA_DEVICE_ORDER is PCI_BUS_ID, so that on a machine
// with unlike cards nobody can say which card a number is.
//
// HIP's are those of its runtime
// (https://github.com/ROCm/clr/blob/rocm-6.4.0/rocclr/device/rocm/rocdevice.cpp):
// ROCR_VISIBLE_DEVICES first, and of what that leaves HIP_VISIBLE_DEVICES or,
// where that is empty, CUDA_VISIBLE_DEVICES; an empty one hides nothing.
func Visible(devices []Device, backend Backend, environ []string) Visibility {
	s := selection{devices: devices, environ: variables(environ)}
	s.Notes = Misspelt(environ, []string{cudaVisible, cudaOrder, hipVisible, rocrVisible}, []string{"NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HSA_VISIBLE_DEVICES"})
	if backend == HIP {
		s.hip()
	} else {
		s.cuda()
	}
	return s.Visibility
}

// selection is the answer in the making.
type selection struct {
	Visibility
	devices []Device
	environ map[string]string
	repeats bool // a device that is named twice is seen once, and not none at all
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

// value gives a variable that is set, and lists it.
func (s *selection) value(name string) (string, bool) {
	value, set := s.environ[name]
	if set {
		s.Variables = append(s.Variables, Variable{name, value})
	}
	return value, set
}

func (s *selection) note(code, format string, args ...any) {
	s.Notes = append(s.Notes, Note{code, fmt.Sprintf(format, args...)})
}

// Misspelt notes variables whose name is one slip or two away from a known one:
// nothing reads them. Others are names that are right in themselves.
func Misspelt(environ, known, others []string) []Note {
	var notes []Note
	all := variables(environ)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(known, name) || slices.Contains(others, name) {
			continue
		}
		if i := slices.IndexFunc(known, func(right string) bool { return isSlip(name, right) }); i >= 0 {
			notes = append(notes, Note{"variable_misspelt", fmt.Sprintf("%s=%s is set, and nothing reads that name: it is %s that counts", name, all[name], known[i])})
		}
	}
	return notes
}

// isSlip reports a name that was meant to be another: two edits away, in other
// letters, or with its words in another order.
func isSlip(name, right string) bool {
	const slips = 2
	if len(name) > len(right)+slips {
		return false
	}
	upper := strings.ToUpper(name)
	return edits([]rune(upper), right) <= slips || slices.Equal(sortedWords(upper), sortedWords(right))
}

func sortedWords(name string) []string { return slices.Sorted(strings.SplitSeq(name, "_")) }

// of lists the devices of a vendor that a program can be given: whole cards, and
// for a divided card its partitions.
func (s *selection) of(vendor string) []int {
	var list []int
	for i, d := range s.devices {
		if d.Vendor == vendor && d.Partition == nil {
			list = append(list, i)
		}
	}
	return list
}

// cuda applies CUDA's variables to NVIDIA's cards.
func (s *selection) cuda() {
	cards := s.of("NVIDIA")
	order, _ := s.value(cudaOrder)
	text, set := s.value(cudaVisible)
	switch {
	case !set:
		s.Indexes = s.numbered(cards, order)
	case text == "":
		s.note("devices_hidden", "%s is set and empty, so that programs see no device", cudaVisible)
	case strings.HasPrefix(text, "GPU-") || strings.HasPrefix(text, "MIG-"):
		s.Indexes = s.entries(cudaVisible, text, func(entry string) (int, string) { return s.byUUID(entry, text[:4]) })
	default:
		numbers := s.numbered(cards, order)
		s.Indexes = s.entries(cudaVisible, text, func(entry string) (int, string) { return byNumber(leadingNumber(entry), numbers) })
	}
	s.onePartition()
}

// numbered is the cards in the order of CUDA's own numbers.
func (s *selection) numbered(cards []int, order string) []int {
	alike := true
	for _, i := range cards {
		alike = alike && s.devices[i].Name == s.devices[cards[0]].Name
	}
	if order == "PCI_BUS_ID" || alike {
		return cards
	}
	s.note("device_order_unknown", "the cards are unlike, and CUDA numbers them from the fastest: set %s=PCI_BUS_ID, or name cards by UUID, to know which is which", cudaOrder)
	return slices.Repeat([]int{-1}, len(cards))
}

// entries reads a list up to its first entry that names no device. A find gives
// the device of an entry, or why there is none.
func (s *selection) entries(name, text string, find func(entry string) (int, string)) []int {
	var list []int
	seen := map[string]bool{}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		i, reason := find(entry)
		if reason != "" {
			s.note("devices_cut", "%s=%s: %q %s, and nothing from there on is seen", name, text, entry, reason)
			break
		}
		key := entry
		if i >= 0 {
			key = fmt.Sprint(i)
		}
		switch {
		case !seen[key]:
			list = append(list, i)
		case !s.repeats:
			s.note("devices_repeated", "%s=%s names a device twice, so that programs see none", name, text)
			return nil
		}
		seen[key] = true
	}
	return list
}

// leadingNumber is the number that an entry begins with, as C's strtoul reads
// it: "1gpu" is 1; −1 where there is none.
func leadingNumber(entry string) int {
	n, digits := 0, 0
	for _, r := range strings.TrimPrefix(entry, "+") {
		if r < '0' || r > '9' || n > 1<<20 {
			break
		}
		n, digits = 10*n+int(r-'0'), digits+1
	}
	if digits == 0 {
		return -1
	}
	return n
}

func byNumber(n int, numbers []int) (int, string) {
	if n < 0 || n >= len(numbers) {
		return 0, "is no device's number here"
	}
	return numbers[n], ""
}

// byUUID finds the one device whose UUID begins with an entry. A MIG instance
// may also be named as MIG-GPU-uuid/gpu instance/compute instance, as drivers
// before R470 did.
func (s *selection) byUUID(entry, prefix string) (int, string) {
	if !strings.HasPrefix(entry, prefix) {
		return 0, "is of another kind than the first entry"
	}
	found := -1
	for i, d := range s.devices {
		if d.UUID == "" || !strings.HasPrefix(d.UUID, entry) && s.oldName(d) != entry {
			continue
		}
		if found >= 0 {
			return 0, "begins the UUID of several devices"
		}
		found = i
	}
	if found < 0 {
		return 0, "is no device's UUID here"
	}
	return found, ""
}

// oldName is a MIG instance's name under drivers before R470; empty for a card.
func (s *selection) oldName(d Device) string {
	if d.Partition == nil {
		return ""
	}
	for _, card := range s.devices {
		if card.Partition == nil && card.Vendor == d.Vendor && card.Card == d.Card {
			return fmt.Sprintf("MIG-%s/%d/%d", card.UUID, d.Partition.GPUInstance, d.Partition.ComputeInstance)
		}
	}
	return ""
}

// onePartition puts a divided card's partitions in its place, and keeps the
// first partition alone as soon as there is one.
func (s *selection) onePartition() {
	var all, partitions []int
	for _, i := range s.Indexes {
		if i < 0 || !s.devices[i].Partitioned || s.devices[i].Partition != nil {
			all = append(all, i)
			if i >= 0 && s.devices[i].Partition != nil {
				partitions = append(partitions, i)
			}
			continue
		}
		own := s.partitions(s.devices[i])
		if len(own) == 0 {
			s.note("no_partition", "card %d is in MIG mode and has no instance that a program could get", s.devices[i].Card)
		}
		all, partitions = append(all, own...), append(partitions, own...)
	}
	s.Indexes = all
	if len(partitions) > 0 && len(all) > 1 {
		s.note("one_partition", "a program sees one MIG instance at most, and no whole card beside it: name the one that is meant in %s", cudaVisible)
		s.Indexes = partitions[:1]
	}
}

// partitions lists the MIG instances of a card.
func (s *selection) partitions(card Device) []int {
	var list []int
	for i, d := range s.devices {
		if d.Partition != nil && d.Vendor == card.Vendor && d.Card == card.Card {
			list = append(list, i)
		}
	}
	return list
}

// hip applies the variables of ROCr and HIP to AMD's devices.
func (s *selection) hip() {
	s.Indexes, s.repeats = s.of("AMD"), true
	for _, names := range [][]string{{rocrVisible}, {hipVisible, cudaVisible}} {
		for _, name := range names {
			text, _ := s.value(name)
			if text == "" {
				continue
			}
			before := s.Indexes
			s.Indexes = s.entries(name, text, func(entry string) (int, string) { return s.ofHIP(entry, before) })
			break
		}
	}
}

// ofHIP finds an entry among the devices that are left.
func (s *selection) ofHIP(entry string, among []int) (int, string) {
	if !strings.HasPrefix(entry, "GPU-") {
		n := leadingNumber(entry)
		if fmt.Sprint(n) != entry {
			n = -1
		}
		return byNumber(n, among)
	}
	for _, i := range among {
		if strings.EqualFold(s.devices[i].UUID, entry) {
			return i, ""
		}
	}
	return 0, "is no device's UUID here"
}
