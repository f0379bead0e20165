package probe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"syscall"
	"time"
)

// Program is what runs under the probe. Its streams are its own: what is given
// as a file is handed on as that file, so that a terminal stays one.
type Program struct {
	Args           []string
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Ended is how a program ended.
type Ended struct {
	PID         int
	Status      int // as a shell sees it: 128+n on a signal
	Signal      string
	Duration    time.Duration
	Interrupted bool // a signal to stop came while it ran
}

// Exit statuses of what starts other programs, as env(1) and timeout(1) have
// them.
const (
	StatusOwnFailure    = 125
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// NotStartedError is a program that could not be started.
type NotStartedError struct {
	Name   string
	Status int // StatusNotFound or StatusNotExecutable
	Err    error
}

func (e *NotStartedError) Error() string {
	return fmt.Sprintf("%s: cannot be started: %v", e.Name, e.Err)
}
func (e *NotStartedError) Unwrap() error { return e.Err }

// lingering bounds how long the copying of streams that are no files waits for
// grandchildren that keep them open.
const lingering = time.Second

// Run starts a program, hands signals on to it, and waits for its end.
func (p Program) Run() (Ended, error) {
	cmd := exec.Command(p.Args[0], p.Args[1:]...)
	cmd.Args[0] = p.Args[0]
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Env, p.Stdin, p.Stdout, p.Stderr
	cmd.WaitDelay = lingering
	relay := newRelay()
	defer relay.stop()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return Ended{}, notStarted(p.Args[0], err)
	}
	relay.to(cmd.Process)
	err := cmd.Wait()
	end := Ended{PID: cmd.Process.Pid, Duration: time.Since(began), Interrupted: relay.interrupted()}
	if cmd.ProcessState == nil {
		return end, err
	}
	end.Status, end.Signal = status(cmd.ProcessState.Sys())
	return end, nil
}

// status is how a shell reports the end of a program.
func status(sys any) (int, string) {
	w, ok := sys.(syscall.WaitStatus)
	if !ok {
		return StatusOwnFailure, ""
	}
	if w.Signaled() {
		return 128 + int(w.Signal()), signalName(w.Signal())
	}
	return w.ExitStatus(), ""
}

func notStarted(name string, err error) error {
	e := &NotStartedError{Name: name, Status: StatusNotExecutable, Err: err}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		e.Status = StatusNotFound
	}
	var path *fs.PathError
	var lookup *exec.Error
	switch {
	case errors.As(err, &path):
		e.Err = path.Err
	case errors.As(err, &lookup):
		e.Err = lookup.Err
	}
	return e
}
