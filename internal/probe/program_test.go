package probe

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func runProgram(t *testing.T, stdin string, args ...string) (Ended, string, error) {
	t.Helper()
	var out bytes.Buffer
	ended, err := Program{Args: args, Env: os.Environ(), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &out}.Run()
	return ended, out.String(), err
}

// Streams pass through byte for byte, and the status is what a shell reports.
func TestProgramIsItsOwn(t *testing.T) {
	binary := string([]byte{0, 1, 0xff, '\n', 0x1b, 0, '\r'})
	for _, c := range []struct {
		name   string
		stdin  string
		args   []string
		status int
		out    string
	}{
		{"binary", binary, []string{"cat"}, 0, binary},
		{"status", "", []string{"sh", "-c", "exit 200"}, 200, ""},
		{"signal", "", []string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		{"arguments", "", []string{"sh", "-c", `printf '[%s]' "$@"`, "sh", "", "a b", "*"}, 0, "[][a b][*]"},
		{"a fork that outlives it", "", []string{"sh", "-c", "(sleep 3) & exit 4"}, 4, ""},
		{"an exec", "", []string{"sh", "-c", "exec sh -c 'exit 5'"}, 5, ""},
		{"another folder", "", []string{"sh", "-c", "cd / && pwd"}, 0, "/\n"},
		{"closed descriptors", "", []string{"sh", "-c", "exec 0<&- 1>&- 2>&- 3>&-; exit 6"}, 6, ""},
	} {
		ended, out, err := runProgram(t, c.stdin, c.args...)
		if err != nil || ended.Status != c.status || out != c.out {
			t.Errorf("%s: status %d and %q with %v, want %d and %q", c.name, ended.Status, out, err, c.status, c.out)
		}
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	_, _, err := runProgram(t, "", "no-such-program")
	var start *NotStartedError
	if !errors.As(err, &start) || start.Status != StatusNotFound {
		t.Errorf("got %v", err)
	}
}

// A signal goes to the program, which decides what it means; the third one to
// stop kills it.
func TestSignalsAreHandedOn(t *testing.T) {
	for _, c := range []struct {
		name        string
		script      string
		signals     []syscall.Signal
		status      int
		interrupted bool
	}{
		{"it ends as it likes", `trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done`, []syscall.Signal{syscall.SIGTERM}, 9, true},
		{"it dies", `echo ready; while :; do sleep 0.02; done`, []syscall.Signal{syscall.SIGTERM}, 143, true},
		{"a signal that stops nothing", `trap 'exit 8' USR1; echo ready; while :; do sleep 0.02; done`, []syscall.Signal{syscall.SIGUSR1}, 8, false},
		{"it does not listen", `trap '' TERM; echo ready; while :; do sleep 0.02; done`, []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM}, 137, true},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ends := make(chan Ended, 1)
		go func() {
			ended, err := Program{Args: []string{"sh", "-c", c.script}, Env: os.Environ(), Stdout: w}.Run()
			if err != nil {
				t.Error(err)
			}
			ends <- ended
		}()
		ready := make([]byte, 6)
		if _, err := r.Read(ready); err != nil {
			t.Fatal(err)
		}
		for _, s := range c.signals {
			if err := syscall.Kill(os.Getpid(), s); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // two of one kind at once are one
		}
		ended := <-ends
		if ended.Status != c.status || ended.Interrupted != c.interrupted {
			t.Errorf("%s: ended with %d, interrupted %v", c.name, ended.Status, ended.Interrupted)
		}
		r.Close()
		w.Close()
	}
}
