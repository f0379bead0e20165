package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"floodmark/bytesize"
	"floodmark/internal/report"
	"floodmark/internal/source"
	"floodmark/record"
)

// Env is the world as the command line may see it. Nothing below it reads the
// process's arguments, streams or environment.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string // "NAME=value", for the programs that are started
	Executable     string   // this program, for those that it starts again
	Home           string   // the person's folder; may be empty
	Terminal       bool     // standard output is a terminal
	ErrTerminal    bool     // standard error is one
	Columns        int      // its width; 0 when unknown
	Version        string
}

// Run executes one command line and returns its exit code. It never panics. It
// returns as soon as the context ends, whatever the command waits for: a reader
// of a long file or of a pipe looks at no context.
func Run(ctx context.Context, env Env) (exit int) {
	s := &session{env: env, tool: record.Tool{Version: env.Version, Command: slices.Clone(env.Args)}, out: &output{to: env.Stdout}}
	root := newRoot(s)
	s.jsonErrors = wantsJSON(root, env.Args)
	done := make(chan error, 1)
	go func() { done <- s.execute(ctx, root) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		// A result file that was begun is written whole, and a program that was
		// started is waited for: it got the signal too, and says how it ended. A
		// server removes what was uploaded.
		if s.outlives.Load() {
			err = <-done
			break
		}
		s.writing.Lock()
		err = errInterrupted
	}
	var verdict *verdictError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &verdict):
		return verdict.code
	case ctx.Err() != nil && !s.outlives.Load():
		err = errInterrupted
	case errors.Is(err, syscall.EPIPE):
		return exitError // whoever read has seen enough, and no message goes on behind it
	}
	return s.fail(err)
}

// errInterrupted is the end of a run that somebody stopped.
var errInterrupted = errors.New("interrupted")

// execute runs the command and prints what it said. A panic is an error.
func (s *session) execute(ctx context.Context, root *cobra.Command) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this is a bug in floodmark: %v at %s", r, site(debug.Stack()))
		}
	}()
	root.SetArgs(append([]string{}, s.env.Args...)) // cobra takes nil for the process's own
	root.SetIn(s.env.Stdin)
	root.SetOut(s.out)
	root.SetErr(s.env.Stderr)
	err = root.ExecuteContext(ctx)
	if failed := s.out.flush(); failed != nil {
		return failed
	}
	return err
}

// output holds what goes to standard output until the command is done, so that
// no write can fail unseen, and an interrupted run prints nothing.
type output struct {
	to   io.Writer
	held bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) { return o.held.Write(data) }

func (o *output) flush() error {
	if o.held.Len() == 0 {
		return nil
	}
	_, err := o.held.WriteTo(o.to)
	return source.OfFile("standard output", err)
}

// site is the function of our own code in which a panic arose, and its line. A
// stack names each function above its file, wherever that was compiled.
func site(stack []byte) string {
	function := ""
	for line := range strings.Lines(string(stack)) {
		if at, isFile := strings.CutPrefix(line, "\t"); isFile && function != "" && !strings.Contains(at, "cli/run.go") {
			at, _, _ = strings.Cut(path.Base(strings.TrimSpace(at)), " ")
			return function + ", " + at
		}
		function = ""
		if arguments := strings.LastIndex(line, "("); arguments > 0 && strings.HasPrefix(line, "floodmark") {
			function = line[:arguments]
		}
	}
	return "an unknown line"
}

// session is one run: the flags that every command shares, and how it speaks.
type session struct {
	env    Env
	tool   record.Tool
	out    *output
	json   bool
	output string
	unit   string

	everyRank bool // of an estimate, all ranks are listed

	jsonErrors bool        // as json, before any flag is parsed
	writing    sync.Mutex  // held while a result file is written
	outlives   atomic.Bool // what runs is waited for, whatever happens: a program, or a server that clears up
}

// outlive makes the run wait for a program that it starts, and for its record.
func (s *session) outlive() { s.outlives.Store(true) }

// colors reports whether somebody asked for none.
func (s *session) colors() bool {
	return s.env.Getenv("NO_COLOR") == "" && s.env.Getenv("TERM") != "dumb"
}

// fail reports an error and returns its exit code.
func (s *session) fail(err error) int {
	r, exit := errorRecord(err, s.tool)
	if s.jsonErrors {
		_ = record.Encode(s.env.Stderr, r)
		return exit
	}
	_ = report.Text(s.env.Stderr, r, report.Style{Width: s.columns()})
	return exit
}

// ready is asked before the work: are the names of the files still free, that of the
// record and those of its other forms?
func (s *session) ready(others ...string) error {
	if _, err := s.style(); err != nil {
		return err
	}
	named := map[string]bool{}
	for _, file := range append([]string{s.output}, others...) {
		if file == "" {
			continue
		}
		at := filepath.Clean(file)
		if named[at] {
			return &usageError{err: fmt.Errorf("%q is named for two files that are made", file), hint: "choose a new name for each result"}
		}
		named[at] = true
		if err := record.Free(file); err != nil {
			return err
		}
	}
	return nil
}

// answer writes a record where --output says, then its other forms, and prints it.
func (s *session) answer(document any, forms ...func() error) error {
	if s.output != "" {
		if err := s.write(s.output, func(w io.Writer) error { return record.Encode(w, document) }); err != nil {
			return err
		}
	}
	for _, write := range forms {
		if err := write(); err != nil {
			return err
		}
	}
	if s.json {
		return record.Encode(s.out, document)
	}
	style, err := s.style()
	if err != nil {
		return err
	}
	return report.Text(s.out, document, style)
}

// write makes a new file, which an interruption does not leave half written.
func (s *session) write(path string, content func(io.Writer) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return record.CreateFile(path, content)
}

func (s *session) style() (report.Style, error) {
	style := report.Style{Width: s.columns(), Color: s.env.Terminal && s.colors(), EveryRank: s.everyRank}
	if s.unit == "" {
		return style, nil
	}
	unit, err := bytesize.ParseUnit(s.unit)
	if err != nil {
		return style, &usageError{err: fmt.Errorf("--unit: %w", err)}
	}
	style.Unit = &unit
	return style, nil
}

// minColumns is the width below which words would be cut to pieces.
const minColumns = 20

// columns is the width of the terminal; a pipe is 100 wide unless COLUMNS says
// otherwise.
func (s *session) columns() int {
	if n, err := strconv.Atoi(s.env.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(n, minColumns)
	}
	if s.env.Columns > 0 {
		return max(s.env.Columns, minColumns)
	}
	return 100
}

func newRoot(s *session) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "floodmark",
		Short: "Does this workload fit on each GPU, at its most demanding moment?",
		Long: `Floodmark says whether a complete workload fits on each GPU that it uses, at its
most demanding moment; and when a measured peak is higher than the estimate,
which bytes it was.`,
		// Two edits are a slip of the hand; more is another word.
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		Args:                       unknownCommand,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return s.version(cmd)
			}
			return cmd.Help()
		},
	}
	// A function and not a template: see web.WriteFile.
	root.SetHelpFunc(s.helpWithin(root.HelpFunc()))
	root.SetFlagErrorFunc(flagError)
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	flags := root.PersistentFlags()
	flags.BoolVar(&s.json, "json", false, "print a record as JSON; errors too, on standard error")
	newFileFlag(flags, &s.output, "output", "o", "also write the record to this new `file`; an existing one is never overwritten")
	textFlag(flags, &s.unit, "unit", "`unit` of figures: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB (default: one that fits)")
	root.SetHelpCommand(newHelp())
	root.AddCommand(
		newEstimate(s),
		newSolve(s),
		newExplain(s),
		newReplay(s),
		newMeasure(s),
		newCompare(s),
		newDecide(s),
		newGPUs(s),
		newEnvironment(s),
		newSweep(s),
		newKit(s),
		newServe(s),
		newCompletion(),
	)
	return root
}

// version prints the version, which is a line of text: every record carries it
// too, as tool.version.
func (s *session) version(cmd *cobra.Command) error {
	if s.json {
		return &usageError{err: errors.New("--version is text and has no record"), hint: "tool.version of any record says it: floodmark gpus --json"}
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "floodmark version %s\n", s.env.Version)
	return err
}
