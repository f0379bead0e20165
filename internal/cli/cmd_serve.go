package cli

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"floodmark/internal/web"
)

func newServe(s *session) *cobra.Command {
	port := 0
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "The page: size a workload, look at records and traces, in a browser on this machine",
		Long: `Serves one page on the loopback address until it is interrupted. The address that
it prints carries a token: whoever has it can run the commands that only read, as
you. Nothing is fetched from elsewhere, and nothing leaves the machine.`,
		Example: "  floodmark serve\n  floodmark serve --port 8080",
		Args:    takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.json || s.output != "" {
				return &usageError{err: fmt.Errorf("serve makes no record"), hint: "floodmark serve"}
			}
			files, err := web.Page()
			if err != nil {
				return err
			}
			server, err := web.New(web.Options{Answer: s.answerFor, Files: files})
			if err != nil {
				return err
			}
			listener, err := server.Listen(strconv.Itoa(port))
			if err != nil {
				return err
			}
			// Written at once: the answer of other commands waits for their end.
			if _, err := fmt.Fprintf(s.env.Stdout, "%s\n", server.URL()); err != nil {
				return err
			}
			// The end of the run waits until the files that were uploaded are gone.
			s.outlive()
			if err := server.Serve(cmd.Context(), listener); err != nil {
				return err
			}
			return errInterrupted
		},
	}
	cmd.Flags().IntVar(&port, "port", 0, "`port` of the loopback address (default: any that is free)")
	return cmd
}

// answerFor runs a command of the page as the command line would, and gives its
// record; of one that fails the record of its error.
func (s *session) answerFor(ctx context.Context, args []string) ([]byte, int) {
	var out, failed bytes.Buffer
	env := s.env
	env.Args, env.Stdin, env.Stdout, env.Stderr, env.Terminal = args, strings.NewReader(""), &out, &failed, false
	exit := Run(ctx, env)
	if out.Len() == 0 {
		return failed.Bytes(), exit
	}
	return out.Bytes(), exit
}
