package kit

import "encoding/json"

// notebook is the lab's commands as cells without outputs. It stops at its guard
// where PyTorch or the GPU is missing.
func notebook() ([]byte, error) {
	cells := []map[string]any{
		text("intro", "# The lab\n\nThe commands of `lab.py`, in the order of README.md, which says how far a result reaches. Run this from the folder that holds both."),
		code("load", "import lab"),
		text("estimate-text", "## Estimate\n\nA payload of weights and an assumed reserve: a preparation, no proof that anything fits. It needs the standard library alone."),
		code("estimate", `lab.main(["estimate", "--parameters", "7000000000", "--bits", "16", "--reserve-gib", "4"])`),
		text("environment-text", "## Environment\n\nIt only looks. What is not known is —."),
		code("environment", `lab.main(["environment", "--device", "cuda:0"])`),
		text("measure-text", "## Measure\n\nOn a device that you may use. The next cell is the guard: without PyTorch or the GPU it stops here with status 2, and nothing is written. A new name for each result."),
		code("measure", "status = lab.main([\"measure\", \"--device\", \"cuda:0\", \"--batch\", \"2\", \"--context\", \"128\", \"--width\", \"1024\", \"--dtype\", \"float32\",\n"+
			"                   \"--warmup\", \"3\", \"--repeats\", \"5\", \"--output\", \"measure-1.jsonl\"])\nassert status == 0, \"nothing was measured: status %d\" % status"),
		text("after", "Fill in `comparison.csv` by hand: one changed variable a row, with its quality."),
	}
	return json.MarshalIndent(map[string]any{
		"cells": cells,
		"metadata": map[string]any{
			"kernelspec":    map[string]any{"display_name": "Python 3", "language": "python", "name": "python3"},
			"language_info": map[string]any{"name": "python"},
		},
		"nbformat": 4, "nbformat_minor": 5,
	}, "", " ")
}

// text and code are cells of version 4 of the format:
// https://nbformat.readthedocs.io/en/latest/format_description.html.
func text(id, source string) map[string]any {
	return map[string]any{"cell_type": "markdown", "id": id, "metadata": map[string]any{}, "source": source}
}

func code(id, source string) map[string]any {
	return map[string]any{"cell_type": "code", "id": id, "metadata": map[string]any{}, "source": source, "execution_count": nil, "outputs": []any{}}
}
