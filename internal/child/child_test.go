package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func sh(script string) Program {
	return Program{Path: "sh", Args: []string{"-c", script}, Timeout: 10 * time.Second}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, script           string
		stdout, report, ending string
	}{
		{"all three streams", "echo out; echo err >&2; echo own >&3", "out\n", "own\n", ""},
		{"an empty standard input", "cat; echo done", "done\n", "", ""},
		{"a status", "exit 7", "", "", "ended with status 7"},
		{"a signal", "kill -SEGV $$", "", "", "was ended by a signal: segmentation fault"},
		{"a child that keeps the pipes", "sleep 30 & echo here", "here\n", "", ""},
	} {
		start := time.Now()
		r, err := Run(context.Background(), sh(c.script))
		if err != nil || string(r.Stdout) != c.stdout || string(r.Report) != c.report || r.Ended() != c.ending {
			t.Errorf("%s: %q, own %q, %q, %v", c.name, r.Stdout, r.Report, r.Ended(), err)
		}
		if time.Since(start) > 5*time.Second {
			t.Errorf("%s: was waited for", c.name)
		}
	}
}

// What hangs is killed, with what it started.
func TestTimeout(t *testing.T) {
	alive := filepath.Join(t.TempDir(), "alive")
	p := sh("(sleep 1; touch " + alive + ") & sleep 30")
	p.Timeout = 100 * time.Millisecond
	r, err := Run(context.Background(), p)
	if err != nil || !r.TimedOut || r.Ended() != "did not end in time and was stopped" {
		t.Errorf("%+v, %v", r, err)
	}
	time.Sleep(1300 * time.Millisecond)
	if _, err := os.Stat(alive); err == nil {
		t.Error("what it started lived on")
	}
	ctx, stop := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, stop)
	if _, err := Run(ctx, sh("sleep 30")); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted run: %v", err)
	}
}

// What says too much is cut, and not waited for.
func TestTalkative(t *testing.T) {
	p := sh("yes | head -c 3000000; yes | head -c 3000000 >&3")
	p.Most = 1000
	r, err := Run(context.Background(), p)
	if err != nil || len(r.Stdout) != 1000 || len(r.Report) != 1000 || r.Ended() != "" {
		t.Errorf("%d and %d bytes, %q, %v", len(r.Stdout), len(r.Report), r.Ended(), err)
	}
}

func TestNotStarted(t *testing.T) {
	for _, path := range []string{"/none/such", "no-such-program-anywhere", t.TempDir()} {
		if _, err := Run(context.Background(), Program{Path: path}); !errors.Is(err, ErrNotStarted) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A program can be spoken with while it runs.
func TestWhile(t *testing.T) {
	p := sh("echo ready >&3; read answer; echo got $answer >&3; echo got $answer")
	var heard string
	p.While = func(report io.Reader, stdin io.Writer) {
		lines := bufio.NewScanner(report)
		for lines.Scan() {
			heard += lines.Text() + ";"
			if lines.Text() == "ready" {
				fmt.Fprintln(stdin, "this")
			}
		}
	}
	r, err := Run(context.Background(), p)
	if err != nil || heard != "ready;got this;" || strings.TrimSpace(string(r.Stdout)) != "got this" {
		t.Errorf("%q, %+v, %v", heard, r, err)
	}
	p = sh("echo one; echo two; exec sleep 30")
	p.Timeout = 200 * time.Millisecond
	heard = ""
	p.Follow = func(stdout io.Reader) {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			heard += lines.Text() + ";"
		}
	}
	if r, err := Run(context.Background(), p); err != nil || heard != "one;two;" || !r.TimedOut {
		t.Errorf("followed: %q, %+v, %v", heard, r, err)
	}
	p = sh("read answer")
	p.While = func(io.Reader, io.Writer) { panic("a bug") }
	if _, err := Run(context.Background(), p); err != nil {
		t.Errorf("a panic beside the program: %v", err)
	}
}

// What is running when this program is killed ends with it.
func TestOrphans(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends them")
	}
	if pids := os.Getenv("CHILD_TEST_PID_FILE"); pids != "" {
		_, _ = Run(context.Background(), sh("echo $$ >"+pids+"; exec sleep 60"))
		return
	}
	pids := filepath.Join(t.TempDir(), "pid")
	parent := exec.Command(os.Args[0], "-test.run", "^TestOrphans$")
	parent.Env = append(os.Environ(), "CHILD_TEST_PID_FILE="+pids)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	for range 500 {
		time.Sleep(20 * time.Millisecond)
		text, _ := os.ReadFile(pids)
		if _, err := fmt.Sscan(string(text), &pid); err == nil {
			break
		}
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for range 250 {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); pid != 0 && (err != nil || strings.Contains(string(stat), ") Z ")) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d lives on", pid)
}
