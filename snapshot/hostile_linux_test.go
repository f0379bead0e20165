package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"floodmark/internal/source"
)

// hostileVariable names the file that a child reads in place of the tests.
const hostileVariable = "FLOODMARK_HOSTILE_FILE"

// mostMemory is what a hostile file may lead to.
const mostMemory = 512 << 10 // KiB

// hostile writes a file by name: small, and much larger in memory if nobody
// counts.
func hostile() map[string]func(w io.Writer) {
	head := "\x80\x04}\x94(\x8c\x08segments\x94]("
	traces := "\x80\x04}\x94(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94](]("
	opening := "}(\x8c\x06action\x94\x8c\x05alloc\x94\x8c\x04addr\x94K\x00\x8c\x04size\x94K\x01\x8c\x06stream\x94K\x00u"
	repeat := func(w io.Writer, head, text string, n int) {
		block := strings.Repeat(text, 1000)
		io.WriteString(w, head)
		for range n / 1000 {
			io.WriteString(w, block)
		}
	}
	entries := func(w io.Writer, n int) {
		io.WriteString(w, traces+opening)
		event := []byte("}(h\x04h\x05h\x06\x8a\x06......h\x07M\x00\x02h\x08K\x00u")
		for i := range n {
			binary.LittleEndian.PutUint32(event[10:], uint32(i))
			event[14], event[15] = 0x7f, 0
			w.Write(event)
		}
		io.WriteString(w, "eeu.")
	}
	packed := func(write func(w io.Writer)) func(w io.Writer) {
		return func(w io.Writer) {
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
			b := bufio.NewWriter(z)
			write(b)
			b.Flush()
			z.Close()
		}
	}
	return map[string]func(w io.Writer){
		"references to one value":      packed(func(w io.Writer) { repeat(w, head, "h\x01", 20_000_000) }),
		"empty dicts in the memo":      packed(func(w io.Writer) { repeat(w, head, "}\x94", 20_000_000) }),
		"values only the memo holds":   packed(func(w io.Writer) { repeat(w, head, "N\x940", 20_000_000) }),
		"tuples that nobody takes":     packed(func(w io.Writer) { repeat(w, head, "N\x850", 20_000_000) }),
		"dicts of numbers":             packed(func(w io.Writer) { repeat(w, head+"\x8c\x011\x940", "}h\x02K\x01s0", 5_000_000) }),
		"blocks that nobody takes":     packed(func(w io.Writer) { repeat(w, head+blockOnce, "}(h\x02h\x03h\x04K\x01u0", 5_000_000) }),
		"entries that free nothing":    packed(func(w io.Writer) { repeat(w, traces+opening, "}(h\x04h\x05h\x06K\x01h\x07K\x01u", 3_000_000) }),
		"as many entries, packed":      packed(func(w io.Writer) { entries(w, 1_500_000) }),
		"a million entries":            func(w io.Writer) { entries(w, 1_000_000) },
		"lists that stay open":         func(w io.Writer) { repeat(w, head, "]"+strings.Repeat("Na", 900), 40_000) },
		"traces of many devices":       func(w io.Writer) { repeat(w, traces[:len(traces)-2], "]", 16_000); io.WriteString(w, "eu.") },
		"traces of a thousand devices": func(w io.Writer) { repeat(w, traces[:len(traces)-2], "]", 1000); io.WriteString(w, "eu.") },
		"a string of JSON":             func(w io.Writer) { repeat(w, `{"segments": "`, strings.Repeat("a", 100), 1_000_000) },
	}
}

// blockOnce is a block whose strings the memo has from then on.
const blockOnce = "\x8c\x05state\x94\x8c\x08inactive\x94\x8c\x04size\x94000"

// TestMain reads the file that a parent named, and reports the most memory that
// the process ever had; without one it runs the tests.
func TestMain(m *testing.M) {
	path := os.Getenv(hostileVariable)
	if path == "" {
		os.Exit(m.Run())
	}
	src, err := source.Open(path)
	if err == nil {
		var s *Snapshot
		if s, err = Read(src); err == nil {
			for _, r := range s.Recordings() {
				r.Peaks()
			}
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Printf("%v\n%s", err, status)
	os.Exit(0)
}

// plainTests is this test program without the race detector, whose shadow memory
// would be measured with the reader's.
func plainTests(t *testing.T) string {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the test program does not say how it was built")
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return executable
	}
	executable = filepath.Join(t.TempDir(), "snapshot.test")
	if out, err := exec.Command("go", "test", "-c", "-o", executable, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return executable
}

// TestHostileFiles reads each file in a process of its own, which must not grow
// beyond 512 MiB, and refuses it or reads it.
func TestHostileFiles(t *testing.T) {
	executable := plainTests(t)
	for name, write := range hostile() {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			write(f)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			child := exec.Command(executable)
			child.Env = append(os.Environ(), hostileVariable+"="+path)
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%.2000s", err, out)
			}
			verdict, _, _ := bytes.Cut(out, []byte("\n"))
			_, high, _ := bytes.Cut(out, []byte("VmHWM:"))
			var most int
			if _, err := fmt.Sscan(string(high), &most); err != nil || most > mostMemory {
				t.Errorf("took %d KiB, more than %d: %s", most, mostMemory, verdict)
			}
			t.Logf("%d MiB: %s", most>>10, verdict)
		})
	}
}
