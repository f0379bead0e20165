package checklist

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root     = "../.."
	document = root + "/docs/checklist.md"
)

var update = flag.Bool("update", false, "rewrite docs/checklist.md")

//go:embed statements.tsv
var statementsFile string

//go:embed elsewhere.tsv
var elsewhereFile string

// gpuCheck is the script in which a statement is shown that needs a GPU.
const gpuCheck = "scripts/gpu_check.sh"

// elsewhere is what stands in the place of a test: the line of the script, or
// why there can be neither.
func elsewhere(t *testing.T) map[int]string {
	t.Helper()
	list := map[int]string{}
	for line := range strings.Lines(elsewhereFile) {
		number, why, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.Atoi(number)
		if !found || err != nil || n < 1 || n > Statements || why == "" || list[n] != "" {
			t.Fatalf("elsewhere.tsv: %q is not a statement, and once what stands for its test", line)
		}
		list[n] = why
	}
	return list
}

// TestElsewhere holds what is said of the script against its lines.
func TestElsewhere(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, gpuCheck))
	if err != nil {
		t.Fatal(err)
	}
	for n, why := range elsewhere(t) {
		said, there := strings.Contains(why, gpuCheck), strings.Contains(string(script), fmt.Sprintf("\n# checklist %d: ", n))
		if said != there {
			t.Errorf("statement %d: elsewhere.tsv names %s: %v; the script has its line: %v", n, gpuCheck, said, there)
		}
	}
}

// statement is one line of statements.tsv.
type statement struct {
	number     int
	mark, text string
}

func statements(t *testing.T) []statement {
	t.Helper()
	var list []statement
	for line := range strings.Lines(statementsFile) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			t.Fatalf("statements.tsv: %q is not number, mark and text", line)
		}
		n, err := strconv.Atoi(fields[0])
		if err != nil || n != len(list)+1 {
			t.Fatalf("statements.tsv: %q stands where %d is due", fields[0], len(list)+1)
		}
		list = append(list, statement{n, fields[1], fields[2]})
	}
	return list
}

// coverage is the tests of each statement, as "account.TestSum".
type coverage map[int][]string

// read takes the calls of Covers out of one test file.
func (c coverage) read(folder string, set *token.FileSet, f *ast.File) (faults []string) {
	for _, d := range f.Decls {
		fn, is := d.(*ast.FuncDecl)
		if !is || fn.Body == nil {
			continue
		}
		name := folder + "." + fn.Name.Name
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || !isCovers(call.Fun) {
				return true
			}
			if !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				faults = append(faults, fmt.Sprintf("%s: call checklist.Covers in the test itself, not in %s", set.Position(call.Pos()), fn.Name.Name))
			}
			for _, arg := range call.Args[min(1, len(call.Args)):] {
				number, is := arg.(*ast.BasicLit)
				if !is || number.Kind != token.INT {
					faults = append(faults, fmt.Sprintf("%s: the numbers of checklist.Covers are plain integers", set.Position(arg.Pos())))
					continue
				}
				if i, err := strconv.Atoi(number.Value); err == nil && !slices.Contains(c[i], name) {
					c[i] = append(c[i], name)
				}
			}
			return true
		})
	}
	return faults
}

func isCovers(e ast.Expr) bool {
	selector, is := e.(*ast.SelectorExpr)
	if !is || selector.Sel.Name != "Covers" {
		return false
	}
	pkg, is := selector.X.(*ast.Ident)
	return is && pkg.Name == "checklist"
}

// readAll takes the calls out of every test file of the project.
func readAll(t *testing.T) coverage {
	t.Helper()
	c := coverage{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := path != root && strings.ContainsAny(d.Name()[:1], "._")
			if hidden || slices.Contains([]string{"testdata", "bin", "dist"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, fault := range c.read(cmp.Or(strings.TrimPrefix(filepath.ToSlash(folder), "."), "floodmark"), set, f) {
			t.Error(fault)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is docs/checklist.md.
func render(list []statement, c coverage, others map[int]string) string {
	covered := 0
	var rows strings.Builder
	for _, s := range list {
		tests := "—"
		if len(c[s.number]) > 0 {
			covered++
			slices.Sort(c[s.number])
			tests = "`" + strings.Join(c[s.number], "`, `") + "`"
		} else if why := others[s.number]; why != "" {
			tests = "no test: " + why
		}
		fmt.Fprintf(&rows, "| %d | %s | %s | %s |\n", s.number, s.mark, s.text, tests)
	}
	return fmt.Sprintf(`# What the project must honour

Generated by `+"`make update`"+` from internal/checklist/statements.tsv and from the calls of `+"`checklist.Covers`"+` in the tests. Marks: C computation, M measurement protocol, I interface, R reporting, A advice.

%d of %d statements are covered by a test. Where a statement has none, elsewhere.tsv says what stands for it: a line of scripts/gpu_check.sh, which needs a GPU, or why there can be neither.

| # | mark | statement | tests |
| ---: | --- | --- | --- |
%s`, covered, len(list), rows.String())
}

func TestStatements(t *testing.T) {
	list := statements(t)
	if len(list) != Statements {
		t.Errorf("statements.tsv holds %d statements, want %d", len(list), Statements)
	}
	marks := map[string]int{}
	for _, s := range list {
		marks[s.mark]++
		if s.text == "" || strings.Contains(s.text, "|") {
			t.Errorf("statement %d: %q cannot stand in a table", s.number, s.text)
		}
	}
	want := map[string]int{"C": 56, "M": 41, "I": 29, "R": 60, "A": 39}
	for mark, n := range want {
		if marks[mark] != n {
			t.Errorf("%d statements are marked %s, want %d", marks[mark], mark, n)
		}
	}
}

// TestUncovered lists in its log what no test covers yet; it fails only on
// calls that cannot be read.
func TestUncovered(t *testing.T) {
	c, others := readAll(t), elsewhere(t)
	for _, s := range statements(t) {
		if len(c[s.number]) == 0 && others[s.number] == "" {
			t.Logf("no test covers %d (%s): %s", s.number, s.mark, s.text)
		}
	}
}

// TestDocument holds docs/checklist.md against the tests.
func TestDocument(t *testing.T) {
	list := statements(t)
	c := readAll(t)
	want := render(list, c, elsewhere(t))
	if *update {
		if err := os.MkdirAll(filepath.Dir(document), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/checklist.md is out of date: run `make update`")
	}
}
