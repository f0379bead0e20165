// Command floodmark says whether a workload fits on each GPU that it uses, at
// its most demanding moment, and which bytes a peak was.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"floodmark/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the run; a second one does what signals do.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, environment()))
}

func environment() cli.Env {
	stdout := int(os.Stdout.Fd())
	env := cli.Env{
		Args:        os.Args[1:],
		Stdin:       os.Stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		Getenv:      os.Getenv,
		Environ:     os.Environ(),
		Terminal:    term.IsTerminal(stdout),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Version:     version(),
	}
	if path, err := os.Executable(); err == nil {
		env.Executable = path
	}
	if home, err := os.UserHomeDir(); err == nil {
		env.Home = home
	}
	if width, _, err := term.GetSize(stdout); err == nil {
		env.Columns = width
	}
	return env
}

// version is the module's, or the commit that a checkout was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "checkout " + s.Value[:12]
		}
	}
	return "checkout"
}
