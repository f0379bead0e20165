package accuracy

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/internal/oracle"
	"floodmark/model"
)

var update = flag.Bool("update", false, "write docs/accuracy.md, and with ORACLES testdata/results.jsonl")

const (
	resultsPath = "testdata/results.jsonl"
	pagePath    = "../../docs/accuracy.md"
)

func committed(t *testing.T) []Row {
	t.Helper()
	var rows []Row
	err := lines(resultsPath, func(data []byte) error {
		var r Row
		err := json.Unmarshal(data, &r)
		rows = append(rows, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// The full pass: every row that was committed is what the program says, and
// none is missing. With -update it writes them.
func TestOracleTables(t *testing.T) {
	dir := oracle.Dir(t)
	rows, err := Parameters(filepath.Join(dir, "zoo"))
	if err != nil {
		t.Fatal(err)
	}
	snapshots, err := Snapshots(filepath.Join(dir, "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, snapshots...)
	reports, err := Served(startupFacts)
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, reports...)
	trained, err := Training()
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, trained...)
	adapters, err := Adapters()
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, adapters...)
	ranks, err := Ranks()
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, ranks...)
	divided, err := Megatron()
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, divided...)
	for i := range rows {
		// Temporary folders have random names, which no row may keep.
		rows[i].Why = withoutPaths(rows[i].Why)
	}
	if *update {
		writeRows(t, rows)
		return
	}
	tables := Fill(Tables(), rows)
	for _, table := range tables {
		t.Logf("%s: %d rows, %d exact, %d wrong, %d without a figure", table.Name, len(table.Rows), table.Count(Exact), table.Count(Wrong), table.Count(Miss))
	}
	if page(t, tables) != page(t, Fill(Tables(), committed(t))) {
		t.Error("the rows differ from testdata/results.jsonl: run ORACLES=DIR go test ./internal/accuracy -update, read the difference, and say in the commit why each figure moved")
	}
}

func withoutPaths(why string) string {
	if i := strings.Index(why, "config.json: "); i >= 0 {
		return why[i:]
	}
	return why
}

func writeRows(t *testing.T, rows []Row) {
	t.Helper()
	var b strings.Builder
	for _, table := range Fill(Tables(), rows) {
		for _, r := range table.Rows {
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(data, '\n'))
		}
	}
	if err := os.WriteFile(resultsPath, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func page(t *testing.T, tables []Table) string {
	t.Helper()
	causes, err := Causes()
	if err != nil {
		t.Fatal(err)
	}
	return Markdown(tables, causes)
}

func TestPageIsUpToDate(t *testing.T) {
	want := page(t, Fill(Tables(), committed(t)))
	if *update {
		if err := os.WriteFile(pagePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(pagePath); err != nil || string(got) != want {
		t.Errorf("docs/accuracy.md is not what the rows say (%v): run make update", err)
	}
}

// A cause that explains nothing is a leftover.
func TestCausesAreNeeded(t *testing.T) {
	causes, err := Causes()
	if err != nil {
		t.Fatal(err)
	}
	rows := committed(t)
	for _, c := range causes {
		needed := slices.ContainsFunc(rows, func(r Row) bool {
			_, explained := explain(r, []Cause{c})
			return explained && r.Status() != Exact && r.Status() != Inside
		})
		if !needed {
			t.Errorf("causes.yaml explains %s %s, which is exact or not scored", c.Table, c.Name)
		}
	}
}

// Sabotage: a table that does not fail when a term is dropped checks nothing.
func TestDroppedTermFails(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// 2 layers of width 8: embedding 10·8, head 10·8, final norm 8; a layer has
	// q 8·8, k and v 4·8 each, o 8·8, three 16·8 and two norms of 8.
	const total = 80 + 80 + 8 + 2*(64+32+32+64+3*128+16)
	write("tiny/config.json", `{"architectures":["LlamaForCausalLM"],"model_type":"llama","torch_dtype":"bfloat16","vocab_size":10,
		"hidden_size":8,"intermediate_size":16,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"tie_word_embeddings":false,
		"max_position_embeddings":32}`)
	write("scored.jsonl", `{"dir":"tiny","unit":"parameters","value":`+"1352"+"}\n")
	if total != 1352 {
		t.Fatalf("the worked number is %d", total)
	}
	rows, err := Parameters(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Status() != Exact {
		t.Fatalf("the whole model is %+v", rows)
	}
	m, err := alone(filepath.Join(dir, "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	m.Tensors = slices.DeleteFunc(m.Tensors, func(t model.Tensor) bool { return t.Role == model.RoleNorm })
	got, _ := score(m, "parameters")
	if r := (Row{Want: total, Got: got}); r.Status() != Wrong {
		t.Errorf("without its norms the model still counts as %s", r.Status())
	}
}
