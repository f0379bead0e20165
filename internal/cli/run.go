package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"floodmark/bytesize"
	"floodmark/internal/report"
	"floodmark/record"
)

// Env is the world as the command line may see it. Nothing below it reads the
// process's arguments, streams or environment.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Home           string // the person's folder; may be empty
	Terminal       bool   // standard output is a terminal
	Columns        int    // its width; 0 when unknown
	Version        string
}

// Run executes one command line and returns its exit code. It never panics.
func Run(ctx context.Context, env Env) (exit int) {
	s := &session{env: env, tool: record.Tool{Version: env.Version, Command: slices.Clone(env.Args)}}
	s.json = wantsJSON(env.Args)
	defer func() {
		if r := recover(); r != nil {
			s.fail(fmt.Errorf("this is a bug in floodmark: %v at %s", r, site(debug.Stack())))
			exit = exitError
		}
	}()
	root := newRoot(s)
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	var verdict *verdictError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &verdict):
		return verdict.code
	case ctx.Err() != nil:
		s.fail(errors.New("interrupted"))
		return exitInterrupted
	}
	return s.fail(err)
}

// site is the line of our own code in which a panic arose.
func site(stack []byte) string {
	for line := range strings.Lines(string(stack)) {
		if _, at, ok := strings.Cut(line, "floodmark/"); ok && strings.Contains(line, ".go:") && !strings.Contains(line, "cli/run.go") {
			return strings.TrimSpace(at)
		}
	}
	return "an unknown line"
}

// wantsJSON looks for --json before any flag is parsed, because an error in the
// flags must come in the form that was asked for.
func wantsJSON(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if value, ok := strings.CutPrefix(a, "--json"); ok {
			on, err := strconv.ParseBool(strings.TrimPrefix(value, "="))
			return value == "" || err == nil && on
		}
	}
	return false
}

// session is one run: the flags that every command shares, and how it speaks.
type session struct {
	env    Env
	tool   record.Tool
	json   bool
	output string
	unit   string
}

// fail reports an error and returns its exit code.
func (s *session) fail(err error) int {
	r, exit := errorRecord(err, s.tool)
	if s.json {
		_ = record.Encode(s.env.Stderr, r)
		return exit
	}
	_ = report.Text(s.env.Stderr, r, report.Style{Width: s.columns()})
	return exit
}

// ready is asked before the work: is the output's name still free?
func (s *session) ready() error {
	if _, err := s.style(); err != nil {
		return err
	}
	if s.output == "" {
		return nil
	}
	return record.Free(s.output)
}

// answer prints a record, and writes it where --output says.
func (s *session) answer(document any) error {
	if s.output != "" {
		if err := record.Create(s.output, document); err != nil {
			return err
		}
	}
	if s.json {
		return record.Encode(s.env.Stdout, document)
	}
	style, err := s.style()
	if err != nil {
		return err
	}
	return report.Text(s.env.Stdout, document, style)
}

func (s *session) style() (report.Style, error) {
	style := report.Style{Width: s.columns(), Color: s.env.Terminal && s.env.Getenv("NO_COLOR") == "" && s.env.Getenv("TERM") != "dumb"}
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

// columns is the width of the terminal; a pipe is 100 wide unless COLUMNS says
// otherwise.
func (s *session) columns() int {
	if n, err := strconv.Atoi(s.env.Getenv("COLUMNS")); err == nil && n >= 40 && n <= 1000 {
		return n
	}
	if s.env.Columns >= 40 {
		return s.env.Columns
	}
	return 100
}

func newRoot(s *session) *cobra.Command {
	root := &cobra.Command{
		Use:   "floodmark",
		Short: "Does this workload fit on each GPU, at its most demanding moment?",
		Long: `Floodmark says whether a complete workload fits on each GPU that it uses, at its
most demanding moment; and when a measured peak is higher than the estimate,
which bytes it was.`,
		Version: s.env.Version,
		// Two edits are a slip of the hand; more is another word.
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		Args:                       unknownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// A function and not a template: see report.TraceHTML.
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		fmt.Fprint(cmd.OutOrStdout(), exitStatusHeader)
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err: err, hint: "see: " + cmd.CommandPath() + " --help"}
	})
	flags := root.PersistentFlags()
	flags.BoolVar(&s.json, "json", s.json, "print a record as JSON; errors too, on standard error")
	flags.StringVarP(&s.output, "output", "o", "", "also write the record to this new `file`; an existing one is never overwritten")
	flags.StringVar(&s.unit, "unit", "", "`unit` of figures: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB (default: one that fits)")
	root.AddCommand(newEstimate(s), newSolve(s), newExplain(s), newReplay(s), newCompare(s), newGPUs(s))
	return root
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see: floodmark --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean: floodmark " + near[0]
	}
	return &usageError{err: fmt.Errorf("there is no command %q", args[0]), hint: hint}
}

// exactly wraps cobra's check of the number of arguments, whose errors have no
// type.
func exactly(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err: err, hint: "usage: " + cmd.UseLine()}
		}
		return nil
	}
}
