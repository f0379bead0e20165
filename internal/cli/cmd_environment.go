package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"floodmark"
)

func newEnvironment(s *session) *cobra.Command {
	var request floodmark.EnvironmentRequest
	seconds := 60
	cmd := &cobra.Command{
		Use:   "environment",
		Short: "Which cards, whose memory, driver, Python, PyTorch, backend and allocator settings",
		Long: `Says what programs run on here: each card by UUID and as programs number it
under the variables that are set, whose memory it has, how much is free now
and who holds the rest; the driver, Python, PyTorch and its backend, the
allocator's settings, and the versions of extensions.

It only looks: it creates no context on a card and allocates nothing there.
With --init a process of its own makes one context and gives it up again, so
that its cost is measured. What cannot be asked is unknown, with the reason,
and is no error: a machine without a GPU or PyTorch has an environment too.`,
		Example: `  floodmark environment
  floodmark environment --device cuda:0 --python .venv/bin/python --json
  floodmark environment --init`,
		Args: takes(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			if seconds < 1 {
				return &usageError{err: errors.New("--timeout: 0 seconds are too few to ask anything"), hint: "leave it out for a minute"}
			}
			request.Environ, request.Timeout = s.env.Environ, time.Duration(seconds)*time.Second
			document, err := floodmark.Environment(cmd.Context(), request, s.tool)
			if err != nil {
				return err
			}
			if err := s.answer(document); err != nil {
				return err
			}
			if c := document.Context; c != nil && c.Error != nil {
				return &verdictError{exitImpossible}
			}
			return nil
		},
	}
	f := cmd.Flags()
	textFlag(f, &request.Device, "device", "one `device`: cuda:0 as programs count, or its UUID")
	textFlag(f, &request.Python, "python", "the `interpreter` to ask (default: python3 on PATH)")
	f.BoolVar(&request.Init, "init", false, "make a context on the device, in a process of its own, to measure its cost")
	numberFlag(f, &seconds, "timeout", "`seconds` that each question to Python may take")
	return cmd
}
