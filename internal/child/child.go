package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Program is what to run.
type Program struct {
	Path    string // with slashes, or a name that is looked for on PATH
	Args    []string
	Env     []string      // nil for this process's own
	Timeout time.Duration // 0 for none but the context's
	// Most is how many bytes are kept of each of its streams; what is beyond is
	// read and thrown away. 0 is one MiB.
	Most int
	// While runs beside the program. It gets what the program writes to its own
	// pipe, descriptor 3, and a pipe to its standard input. When it returns, both
	// are closed. Without it the program's own pipe is read into Report, and its
	// standard input is empty.
	While func(report io.Reader, stdin io.Writer)
	// Follow reads the program's standard output while it runs, instead of its
	// being kept. What it leaves is read and thrown away.
	Follow func(stdout io.Reader)
}

// Result is what the program said and how it ended.
type Result struct {
	Stdout, Stderr, Report []byte
	Exit                   int    // its status; −1 where a signal ended it
	Signal                 string // that ended it: "segmentation fault"; empty where none did
	TimedOut               bool
}

// Ended says how a program ended, as the end of a sentence about it; empty where
// it ended well.
func (r Result) Ended() string {
	switch {
	case r.TimedOut:
		return "did not end in time and was stopped"
	case r.Signal != "":
		return "was ended by a signal: " + r.Signal
	case r.Exit != 0:
		return fmt.Sprintf("ended with status %d", r.Exit)
	}
	return ""
}

// ErrNotStarted is wrapped by the error of a program that could not be started.
var ErrNotStarted = errors.New("could not be started")

const (
	mostDefault = 1 << 20
	// grace is how long the pipes of an ended program are waited for: something
	// that it started may hold them open.
	grace = 500 * time.Millisecond
)

// Run runs a program to its end. The error is of a program that could not be
// started, or of the context; how it ended is in the result.
func Run(ctx context.Context, p Program) (Result, error) {
	limited, stop := ctx, func() {}
	if p.Timeout > 0 {
		limited, stop = context.WithTimeout(ctx, p.Timeout)
	}
	defer stop()
	cmd := exec.CommandContext(limited, p.Path, p.Args...)
	cmd.Env, cmd.WaitDelay = p.Env, grace
	ownGroup(cmd)
	stdout, stderr := &bounded{most: p.most()}, &bounded{most: p.most()}
	cmd.Stdout, cmd.Stderr = stdout, stderr

	report, err := run(cmd, p)
	if errors.Is(err, ErrNotStarted) {
		return Result{Exit: -1}, err
	}
	r := Result{Stdout: stdout.bytes(), Stderr: stderr.bytes(), Report: report, Exit: cmd.ProcessState.ExitCode(), Signal: signal(cmd.ProcessState)}
	r.TimedOut = limited.Err() != nil && ctx.Err() == nil && r.Exit != 0
	return r, ctx.Err()
}

func (p Program) most() int {
	if p.Most > 0 {
		return p.Most
	}
	return mostDefault
}

// run starts the program with its pipes and waits for it. What is left of its
// process group is killed then.
func run(cmd *exec.Cmd, p Program) ([]byte, error) {
	own, err := newPipe()
	if err != nil {
		return nil, fmt.Errorf("%s %w: %w", p.Path, ErrNotStarted, err)
	}
	out, err := newPipe()
	if err != nil {
		own.close()
		return nil, fmt.Errorf("%s %w: %w", p.Path, ErrNotStarted, err)
	}
	cmd.ExtraFiles = []*os.File{own.writing}
	if p.Follow != nil {
		cmd.Stdout = out.writing
	}
	var stdin io.WriteCloser
	if p.While != nil {
		stdin, err = cmd.StdinPipe()
	}
	// The thread that starts the program is kept until it has ended: see
	// ownGroupAttributes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		own.close()
		out.close()
		return nil, fmt.Errorf("%s %w: %w", p.Path, ErrNotStarted, err)
	}
	report := &bounded{most: p.most()}
	spoken := own.read(func(r io.Reader) {
		if p.While != nil {
			during(p.While, r, stdin)
		}
		_, _ = io.Copy(report, r)
	})
	followed := out.read(func(r io.Reader) {
		if p.Follow != nil {
			p.Follow(r)
		}
		_, _ = io.Copy(io.Discard, r)
	})
	err = cmd.Wait()
	killGroup(cmd)
	own.end(spoken)
	out.end(followed)
	return report.bytes(), err
}

// pipe is one that the program writes to.
type pipe struct{ reading, writing *os.File }

func newPipe() (pipe, error) {
	reading, writing, err := os.Pipe()
	return pipe{reading, writing}, err
}

func (p pipe) close() {
	p.reading.Close()
	p.writing.Close()
}

// read begins to read once the program has been started.
func (p pipe) read(work func(io.Reader)) <-chan struct{} {
	p.writing.Close()
	return beside(func() { work(p.reading) })
}

// end waits a while for what is left in the pipe of a program that has ended:
// something that it started may hold it open.
func (p pipe) end(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(grace):
	}
	p.reading.Close()
	<-done
}

// during speaks with the program; however that ends, its input is closed then.
func during(speak func(io.Reader, io.Writer), report io.Reader, stdin io.WriteCloser) {
	defer stdin.Close()
	speak(report, stdin)
}

// beside runs work in a goroutine, in which a panic ends the work alone.
func beside(work func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		work()
	}()
	return done
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	mu   sync.Mutex
	most int
	data []byte
}

func (b *bounded) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, data[:min(len(data), b.most-len(b.data))]...)
	return len(data), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data
}
