package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"floodmark/internal/checklist"
	"floodmark/internal/cli"
)

// TestMain lets the scripts run the program as "floodmark".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"floodmark": func() {
			self, _ := os.Executable()
			os.Exit(cli.Run(context.Background(), cli.Env{
				Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Getenv: os.Getenv, Environ: os.Environ(), Executable: self, Version: "test",
			}))
		},
	})
}

// TestScripts runs every script of testdata/script; each tells one story. The
// statements that they honour are listed here, because a script calls no Go.
func TestScripts(t *testing.T) {
	checklist.Covers(t, 2, 16, 19, 20, 24, 25, 26, 27, 28, 29, 47, 54, 56, 57, 59, 60, 63, 68, 69, 70, 82, 97, 98, 99, 105, 106, 107, 111, 114, 115, 118, 119, 120, 122, 124, 125, 126, 128, 140, 177, 179)
	facts, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("FACTS", facts)
			// Wide enough that no sentence is wrapped; what 80 and 120 columns
			// look like has scripts of its own.
			env.Setenv("COLUMNS", "240")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

// status WANT PROGRAM ARGS… runs a program and checks its exit code.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status WANT PROGRAM ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = err.Error()
	}
	want := args[0]
	if want != "0" {
		want = "exit status " + want
	}
	if got != want {
		ts.Fatalf("%v ended with %q, want %q", args[1:], got, want)
	}
}
