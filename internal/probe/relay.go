package probe

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// relay hands the signals that this process gets on to the program, and waits
// for it: the program decides what a signal means. The third one to stop kills.
type relay struct {
	signals chan os.Signal
	done    chan struct{}
	stops   atomic.Int32
}

// patience is how many signals to stop a program may get before it is killed.
const patience = 3

// newRelay begins to hold back signals, so that none ends this process between
// the start of the program and the end of its record.
func newRelay() *relay {
	r := &relay{signals: make(chan os.Signal, 16), done: make(chan struct{})}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) { // as nohup wants it
			signal.Notify(r.signals, s)
		}
	}
	return r
}

// to starts handing signals on.
func (r *relay) to(p *os.Process) {
	go func() {
		for {
			select {
			case s := <-r.signals:
				r.pass(p, s)
			case <-r.done:
				return
			}
		}
	}()
}

func (r *relay) pass(p *os.Process, s os.Signal) {
	if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT {
		switch n := r.stops.Add(1); {
		case n >= patience:
			s = syscall.SIGKILL
		case n == 1 && fromTerminal(s):
			return // the terminal told the whole group, the program too
		}
	}
	_ = p.Signal(s) // it may have ended meanwhile
}

// fromTerminal reports a signal that a terminal sends to all of its foreground
// group: this process and what it started.
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func (r *relay) interrupted() bool { return r.stops.Load() > 0 }

func (r *relay) stop() {
	signal.Stop(r.signals)
	close(r.done)
}

// signalName is a signal as documents spell it: SIGKILL.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}
