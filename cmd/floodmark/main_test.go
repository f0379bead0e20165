//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain runs the program itself where a test starts this file as one.
func TestMain(m *testing.M) {
	if os.Getenv("FLOODMARK_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func program(args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "FLOODMARK_MAIN=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return cmd, &stderr
}

// The first signal ends a run that waits for standard input, with 130.
func TestSignalsInterrupt(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd, stderr := program("explain", "-")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// More than a pipe holds: when it is written, the program is reading.
		if _, err := io.Copy(stdin, strings.NewReader(strings.Repeat("x", 1<<20))); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 130 || stderr.String() != "floodmark: interrupted\n" {
			t.Errorf("%v: %v, %q", signal, err, stderr)
		}
	}
}

// Nothing that was uploaded to the page outlives a server that was stopped.
func TestServeRemovesUploads(t *testing.T) {
	cmd, stderr := program("serve")
	dir := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	host, token, _ := strings.Cut(strings.TrimSpace(address), "/#token=")
	upload, err := http.NewRequest("POST", host+"/api/upload?name=a", strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	upload.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultTransport.RoundTrip(upload)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	response.Body.Close()
	if kept, err := os.ReadDir(dir); err != nil || len(kept) != 1 {
		t.Fatal("nothing was kept:", kept, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || stderr.String() != "floodmark: interrupted\n" {
		t.Errorf("%v, %q", err, stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Error("uploads outlive the server:", left, err)
	}
}

// A pipe into which nobody writes is refused wherever a file is read.
func TestPipesAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, workload := filepath.Join(dir, "pipe"), filepath.Join(dir, "w.yaml")
	for _, path := range []string{pipe, workload, filepath.Join(dir, "config.json")} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"explain", pipe}, {"compare", pipe, pipe}, {"replay", pipe}, {"estimate", pipe}, {"estimate", workload}, {"estimate", dir},
	} {
		cmd, stderr := program(args...)
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(stderr.String(), "is not a regular file (a named pipe)\nfloodmark: hint: ") {
			t.Errorf("%v: %v, %q", args, err, stderr)
		}
	}
}

// A standard output that takes nothing is an error of the program.
func TestStandardOutputWithoutRoom(t *testing.T) {
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for _, args := range [][]string{{"--help"}, {"gpus"}, {"--version"}} {
		cmd, stderr := program(args...)
		cmd.Stdout = device
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(stderr.String(), "floodmark: standard output: ") {
			t.Errorf("%v: %v, %q", args, err, stderr)
		}
	}
}
