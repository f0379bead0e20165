package cli

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"floodmark"
	"floodmark/internal/source"
)

// maxPiped bounds evidence from standard input, which has no size to check.
const maxPiped = 64 << 20

func newExplain(s *session) *cobra.Command {
	var page string
	var checkpoints []string
	var beside besideOptions
	cmd := &cobra.Command{
		Use:   "explain FILE",
		Short: "Any evidence: where the peak is and what it is made of",
		Long: `Reads a file of any kind that it recognises by its content:

  a PyTorch memory snapshot (torch.cuda.memory._dump_snapshot) as a pickle, as
  JSON, or inside the HTML page of PyTorch's viewer; each of them gzipped too
  a log or a piece of one: an out-of-memory text, or what vLLM, SGLang, llama.cpp,
  Ollama and other engines print of their memory; lines of JSON included
  a record that floodmark wrote

"-" reads from standard input, up to 64 MiB. A pickle is read as plain data;
nothing in it is executed.

With --against an estimate, a workload or compose file, or the command that
started the engine behind --, the evidence stands beside what is estimated: a
measurement phase by phase and rank by rank, a snapshot category by category, an
out-of-memory text and what an engine printed term by term. Only like scopes are
compared; what was never measured is —; what no term explains is the last row; and
errors that cancel in a sum are said to. Either file may come first.`,
		Example: "  floodmark explain snapshot.pickle --html snapshot.html\n  floodmark explain error.txt --json\n  floodmark explain - < error.txt\n  floodmark explain run.json --against plan.json\n  floodmark explain server.log --gpu h100 -- vllm serve ./Llama-3.1-8B --max-model-len 8192",
		Args:    takesBeside(1, 1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(page); err != nil {
				return err
			}
			evidence, err := s.open(cmd, args[0])
			if err != nil {
				return err
			}
			evidence, estimate, err := s.beside(cmd, &beside, args, evidence)
			if err != nil {
				return err
			}
			document := evidence.Record(s.tool)
			if estimate != nil {
				if document, err = floodmark.Against(evidence, estimate, s.tool); err != nil {
					return source.OfFile(args[0], err)
				}
			}
			if len(checkpoints) > 0 {
				if document, err = floodmark.Reconcile(document, checkpoints); err != nil {
					return ofFlag("--at", err)
				}
			}
			return s.answer(document, s.page(page, filepath.Base(args[0]), document, floodmark.TraceOf(evidence)))
		},
	}
	beside.addFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&checkpoints, "at", nil, "a `checkpoint` of a measurement, scope inside scope: the end of a phase (backward#2, optimizer_step) or its start (backward#2:start)")
	newFileFlag(cmd.Flags(), &page, "html", "", "also write a page to this new `file`, which opens offline")
	return cmd
}

func (s *session) open(cmd *cobra.Command, path string) (floodmark.Evidence, error) {
	if path != "-" {
		return floodmark.Open(path)
	}
	if s.env.Stdin == nil {
		return nil, &usageError{err: errors.New("there is no standard input to read")}
	}
	src, err := source.Input("standard input", cmd.InOrStdin(), maxPiped)
	if err != nil {
		return nil, err
	}
	return floodmark.OpenSource(src)
}
