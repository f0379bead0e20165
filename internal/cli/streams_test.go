package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"floodmark/internal/cli"
)

// An interrupted run ends at once, whatever it waits for; here for a standard
// input that never ends. It prints no part of an answer.
func TestInterrupted(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"as text", []string{"explain", "-"}, "floodmark: interrupted\n"},
		{"as a record", []string{"explain", "-", "--json"}, `"code": "interrupted"`},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		stdin, feed := io.Pipe()
		var stdout, stderr bytes.Buffer
		ended := make(chan int)
		go func() {
			ended <- cli.Run(ctx, cli.Env{Args: c.args, Stdin: stdin, Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }})
		}()
		// It is reading when it has taken a byte.
		if _, err := feed.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		cancel()
		if code := <-ended; code != 130 {
			t.Errorf("%s: ended with %d", c.name, code)
		}
		if stdout.Len() > 0 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: printed %q and %q", c.name, stdout.String(), stderr.String())
		}
		feed.Close()
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// gone is a pipe that nobody reads any more.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// Behind a reader that has seen enough (| head) nothing more is said, and the run has not
// done what it was asked.
func TestStandardOutputThatNobodyReads(t *testing.T) {
	var stderr bytes.Buffer
	code := cli.Run(context.Background(), cli.Env{Args: []string{"gpus"}, Stdout: gone{}, Stderr: &stderr, Getenv: func(string) string { return "" }})
	if code != 1 || stderr.Len() > 0 {
		t.Errorf("ended with %d and said %q", code, stderr.String())
	}
}

// What cannot be printed is an error, of help and completion too.
func TestStandardOutputThatFails(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {}, {"help", "gpus"}, {"--version"}, {"completion", "bash"}, {"gpus"}, {"gpus", "--json"}, {"explain", oom}} {
		var stderr bytes.Buffer
		code := cli.Run(context.Background(), cli.Env{Args: args, Stdout: full{}, Stderr: &stderr, Getenv: func(string) string { return "" }})
		if want := "standard output: no space left on device"; code != 1 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v ended with %d and said %q, want %q", args, code, stderr.String(), want)
		}
	}
}

// Every width that a terminal says is used: 20 columns at least, and no most.
func TestColumns(t *testing.T) {
	for _, c := range []struct {
		variable string
		terminal int
		same     int // the width of a terminal that prints the same
	}{
		{"1", 0, 20}, {"25", 0, 25}, {"5000", 0, 5000}, {"", 30, 30}, {"", 10, 20}, {"wide", 90, 90}, {"-5", 90, 90}, {"", 0, 100},
	} {
		got, _, _ := run(c.terminal, map[string]string{"COLUMNS": c.variable}, false, "explain", oom)
		want, _, _ := run(c.same, nil, false, "explain", oom)
		if got != want {
			t.Errorf("COLUMNS=%q on a terminal of %d is not %d wide", c.variable, c.terminal, c.same)
		}
	}
}
