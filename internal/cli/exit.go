package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"floodmark"
	"floodmark/device"
	"floodmark/environment"
	"floodmark/internal/source"
	"floodmark/parallel"
	"floodmark/record"
)

// Exit codes, as every command's help lists them.
const (
	exitDone         = 0   // done, and fits or no card was named
	exitError        = 1   // an error
	exitImpossible   = 2   // measurement impossible: PyTorch or GPU missing
	exitDoesNotFit   = 3   // does not fit, or not runnable
	exitCannotTell   = 4   // cannot tell
	exitDiffers      = 5   // differs beyond the tolerance
	exitUsage        = 64  // usage
	exitOwnFailure   = 125 // measure beside a program: measuring itself failed
	exitInterrupted  = 130 // interrupted
	exitStatusHeader = `
EXIT STATUS
   0  done; with a card: it fits
   1  an error
   2  measurement impossible: PyTorch or a GPU is missing
   3  does not fit, or cannot run
   4  cannot tell
   5  differs beyond the tolerance
  64  the command line is wrong
 125  measure beside a program: measuring failed; 126, 127: the program cannot be
      started; anything else is the program's own status
 130  interrupted
`
)

// usageError is a command line that is wrong.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// verdictError carries the exit code of an answer. Nothing is printed for it:
// the answer has been.
type verdictError struct{ code int }

func (e *verdictError) Error() string { return "the answer is in the exit code" }

// verdictExit is the exit code of a verdict; nil when it fits or none was
// asked for.
func verdictExit(v *record.Verdict) error {
	if v == nil {
		return nil
	}
	switch v.Value {
	case "does_not_fit", "not_runnable":
		return &verdictError{exitDoesNotFit}
	case "cannot_tell":
		return &verdictError{exitCannotTell}
	}
	return nil
}

// classify gives an error its code in the record and its exit code.
func classify(err error) (code string, exit int) {
	var usage *usageError
	var format *source.FormatError
	var name *device.NameError
	var layout *parallel.NotSupportedError
	var settings *floodmark.SettingsError
	var device *environment.DeviceNameError
	var own *ownError
	var impossible *floodmark.ImpossibleError
	var unmeasured *impossibleError
	switch {
	case errors.As(err, &own):
		code, _ = classify(own.err)
		return code, own.status()
	case errors.As(err, &impossible), errors.As(err, &unmeasured) && unmeasured.exit == exitImpossible:
		return "impossible", exitImpossible
	case errors.Is(err, errInterrupted):
		return "interrupted", exitInterrupted
	case errors.As(err, &usage), errors.As(err, &settings), errors.As(err, &device):
		return "usage", exitUsage
	case errors.As(err, &name):
		return "unknown_card", exitUsage
	case errors.As(err, &format):
		return "malformed", exitError
	case errors.As(err, &layout) && layout.Unmodelled:
		return "not_modelled", exitCannotTell
	case errors.As(err, &layout):
		return "not_runnable", exitDoesNotFit
	case errors.Is(err, floodmark.ErrNoDevice):
		return "no_device", exitImpossible
	case errors.Is(err, source.ErrNotThisFormat):
		return "not_recognised", exitError
	case errors.Is(err, record.ErrExists):
		return "exists", exitError
	case errors.Is(err, fs.ErrNotExist):
		return "not_found", exitError
	}
	return "error", exitError
}

// errorRecord is an error as a document.
func errorRecord(err error, tool record.Tool) (*record.Error, int) {
	code, exit := classify(err)
	r := &record.Error{Envelope: record.NewEnvelope(record.KindError, tool, nil), Code: code, Message: err.Error()}
	var usage *usageError
	var format *source.FormatError
	if errors.As(err, &usage) {
		r.Hint = record.Text(usage.hint)
	}
	if errors.As(err, &format) {
		r.File, r.Field, r.Hint = record.Text(format.File), record.Text(format.Field), record.Text(format.Hint)
		if format.Offset >= 0 {
			r.Offset = &format.Offset
		}
	}
	var file *source.FileError
	if errors.As(err, &file) {
		r.File = record.Text(file.File)
	}
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		r.Hint = record.Text(hinted.Hint())
	}
	var runs *floodmark.LayoutError
	if errors.As(err, &runs) && len(runs.Runs) > 0 {
		r.Hint = record.Text(fmt.Sprintf("tensor_parallel can be %s here", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(runs.Runs)), ", "), "[]")))
	}
	switch {
	case errors.Is(err, record.ErrExists):
		r.Hint = record.Text("choose a new name for each result")
	case errors.Is(err, floodmark.ErrNotComparable):
		r.Hint = record.Text("floodmark explain FILE says what each of the two is")
	}
	return r, exit
}
