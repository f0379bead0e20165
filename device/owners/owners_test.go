package owners

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/device"
	"floodmark/device/devicetest"
)

// proc makes a /proc in which 10 started 11 and 12, and 11 started 13. 12 has a
// card's file open, and 40 is nobody's child.
func proc(t *testing.T, namespace string) Table {
	t.Helper()
	root := t.TempDir()
	for pid, p := range map[int]struct{ name, stat, file string }{
		10: {"bash", "10 (bash) S 1 10", "/dev/null"},
		11: {"python", "11 (a ) b) S 10 10", "/dev/null"},
		12: {"python", "12 (python) S 10 10", "/dev/nvidia0"},
		13: {"pt_data_worker", "13 (x) S 11 10", "/dev/null"},
		40: {"Xorg", "broken", "/dev/dri/card0"},
	} {
		folder := filepath.Join(root, fmt.Sprint(pid))
		if err := os.MkdirAll(filepath.Join(folder, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"comm": p.name + "\n", "stat": p.stat} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(p.file, filepath.Join(folder, "fd/3")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "self/ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(namespace, filepath.Join(root, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	return Open(root)
}

const container = "pid:[4026532761]"

func said(f account.Figure) string {
	if n, ok := f.IsExact(); ok {
		return fmt.Sprint(n)
	}
	return "unknown"
}

// On the host every PID is known; in a container only that of a process which
// has a card open.
func TestOwners(t *testing.T) {
	m := devicetest.Memory(100, 0, map[int]int64{11: 30, 12: 40, 99: 5})
	for namespace, want := range map[string][]string{initialNamespace: {"python", "python", ""}, container: {"", "python", ""}} {
		table := proc(t, namespace)
		for i, o := range table.Owners(m) {
			if o.Name != want[i] || (o.Name == "") != (o.Reason != "") {
				t.Errorf("%s: %d is %q (%s), want %q", namespace, o.PID, o.Name, o.Reason, want[i])
			}
		}
	}
}

func TestHeld(t *testing.T) {
	m := devicetest.Memory(100, 0, map[int]int64{11: 30, 12: 40, 99: 5})
	silent := m
	silent.NoProcesses = "not supported"
	for _, c := range []struct {
		name, namespace string
		memory          device.Memory
		pids            []int
		want            string
	}{
		{"two of them", initialNamespace, m, []int{10, 11, 12}, "70"},
		{"none of them", initialNamespace, m, []int{10, 13}, "0"}, // a real 0
		{"in a container, one that is known", container, m, []int{12}, "40"},
		{"in a container, one that is not", container, m, []int{11}, "unknown"},
		{"in a container, none listed", container, m, []int{10}, "unknown"},
		{"no list", initialNamespace, silent, []int{11}, "unknown"},
	} {
		f := proc(t, c.namespace).Held(c.memory, c.pids)
		if said(f) != c.want || f.Scope != account.Process || said(f) == "unknown" && f.Reason() == "" {
			t.Errorf("%s: %s (%s), want %s", c.name, said(f), f.Reason(), c.want)
		}
	}
}

func TestTree(t *testing.T) {
	table := proc(t, initialNamespace)
	for pid, want := range map[int][]int{10: {10, 11, 12, 13}, 11: {11, 13}, 40: {40}, 77: {77}} {
		got := table.Tree(pid)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", pid, got, want)
		}
	}
	if got := Open(filepath.Join(t.TempDir(), "none")).Tree(5); !slices.Equal(got, []int{5}) {
		t.Errorf("without a table: %v", got)
	}
	if me := os.Getpid(); !slices.Contains(Open("/proc").Tree(os.Getppid()), me) {
		t.Error("this process is not its parent's")
	}
}
