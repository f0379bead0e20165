package owners

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/device"
)

// initialNamespace is the PID namespace of the host itself, which the kernel
// numbers so by definition (PROC_PID_INIT_INO, include/linux/proc_ns.h:
// https://github.com/torvalds/linux/blob/v6.12/include/linux/proc_ns.h).
const initialNamespace = "pid:[4026531836]"

// Table is the processes of this machine, as /proc lists them.
type Table struct {
	root string
	host bool // PIDs here are those of the host, and so of the drivers
}

// Open reads the table under a root, which is "/proc" but in tests.
func Open(root string) Table {
	link, err := os.Readlink(filepath.Join(root, "self/ns/pid"))
	return Table{root: root, host: err == nil && link == initialNamespace}
}

// Host reports that PIDs here are the host's. Elsewhere a PID of the driver is
// only known by a device that the process of that number has open.
func (t Table) Host() bool { return t.host }

// Owner is a process that holds memory of a device.
type Owner struct {
	device.Process
	Name   string // of its program; empty when it is not known
	Reason string // why it is not
}

// Owners names the processes of a reading.
func (t Table) Owners(m device.Memory) []Owner {
	var list []Owner
	for _, p := range m.Processes {
		o := Owner{Process: p}
		name, err := os.ReadFile(t.path(p.PID, "comm"))
		switch {
		case !t.matches(p.PID):
			o.Reason = "the driver numbers processes as the host does, and this is a container"
		case err != nil:
			o.Reason = "no process of that number can be seen: it has ended, or is hidden from this user"
		default:
			o.Name = strings.TrimSuffix(string(name), "\n")
		}
		list = append(list, o)
	}
	return list
}

// Held is what some processes hold on a device at a reading. It is unknown where
// the driver does not list processes, and in a container where it lists none of
// these by a number that can be matched.
func (t Table) Held(m device.Memory, pids []int) account.Figure {
	p := account.Provenance{Origin: account.Observed, Scope: account.Process, Counter: "the driver's list of processes"}
	if m.NoProcesses != "" {
		return account.Unknown(m.NoProcesses, p)
	}
	var found []account.Figure
	for _, listed := range m.Processes {
		if slices.Contains(pids, listed.PID) && t.matches(listed.PID) {
			found = append(found, listed.Bytes)
			p.Counter = listed.Bytes.Counter
		}
	}
	switch {
	case len(found) > 0:
		return account.Sum(p, found...)
	case t.host:
		return account.Zero("the driver lists none of these processes on the device", p)
	}
	return account.Unknown("this is a container, and the driver lists none of its processes by their numbers here", p)
}

// matches reports that a PID of the driver is the process of that number here.
func (t Table) matches(pid int) bool { return t.host || t.usesDevice(pid) }

// usesDevice reports a process that has a GPU's device file open.
func (t Table) usesDevice(pid int) bool {
	entries, err := os.ReadDir(t.path(pid, "fd"))
	if err != nil {
		return false
	}
	for _, e := range entries {
		target, err := os.Readlink(t.path(pid, "fd/"+e.Name()))
		if err == nil && isDevice(target) {
			return true
		}
	}
	return false
}

func isDevice(path string) bool {
	for _, prefix := range []string{"/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/dxg"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// Tree is a process and all that it started, directly or not, as far as they
// still have it for an ancestor.
func (t Table) Tree(pid int) []int {
	children := map[int][]int{}
	entries, err := os.ReadDir(t.root)
	if err != nil {
		return []int{pid}
	}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, ok := t.parent(child); ok {
			children[parent] = append(children[parent], child)
		}
	}
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		for _, child := range children[tree[i]] {
			if !slices.Contains(tree, child) {
				tree = append(tree, child)
			}
		}
	}
	return tree
}

// parent reads the parent from /proc/PID/stat, whose second field is the
// program's name in parentheses and may hold anything.
func (t Table) parent(pid int) (int, bool) {
	stat, err := os.ReadFile(t.path(pid, "stat"))
	if err != nil {
		return 0, false
	}
	_, rest, ok := cutLast(string(stat), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return parent, err == nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

func (t Table) path(pid int, name string) string {
	return filepath.Join(t.root, fmt.Sprint(pid), name)
}
