// Package internal_test holds the rules of the house: who may import whom
// (layers_test.go) and what a file may hold (house_test.go). Both read the
// files that git tracks or would track, whatever their build tags say.
package internal_test

import (
	"bytes"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const root = ".." // the checkout, seen from this folder

// file is one Go file of the project.
type file struct {
	path   string // from the root, with slashes: "account/figure.go"
	folder string // "account"; "." is the root
	set    *token.FileSet
	syntax *ast.File
	lines  int
}

func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f *file) isProgram() bool { return f.syntax.Name.Name == "main" }

// at is where a node begins, as "account/figure.go:12".
func (f *file) at(n ast.Node) string {
	return f.path + ":" + strconv.Itoa(f.set.Position(n.Pos()).Line)
}

// parse reads one file with its comments.
func parse(t *testing.T, name string, text []byte) *file {
	t.Helper()
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return &file{path: name, folder: path.Dir(name), set: set, syntax: syntax, lines: bytes.Count(text, []byte("\n"))}
}

// tracked lists the paths that match a pattern and that git tracks or would
// track.
func tracked(t *testing.T, pattern string) []string {
	t.Helper()
	git := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pattern)
	git.Dir = root
	git.Stderr = os.Stderr
	out, err := git.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v (these rules hold for a checkout)", err)
	}
	var list []string
	seen := map[string]bool{}
	for p := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(root, p)); err != nil || seen[p] {
			continue // deleted and not committed yet
		}
		seen[p] = true
		list = append(list, p)
	}
	return list
}

// goFiles parses every Go file of the project but test data. Files with the
// constraint "ignore" belong to no package: somebody runs them by name.
func goFiles(t *testing.T) []*file {
	t.Helper()
	var files []*file
	for _, p := range tracked(t, "*.go") {
		if strings.Contains("/"+p, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		if f := parse(t, p, text); !ignored(f) {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		t.Fatal("no Go file was found")
	}
	return files
}

func ignored(f *file) bool {
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if c.Pos() > f.syntax.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			tag, err := constraint.Parse(c.Text)
			if err == nil && tag.String() == "ignore" {
				return true
			}
		}
	}
	return false
}

// otherModules are the folders below the root with a go.mod of their own.
func otherModules(t *testing.T) []string {
	t.Helper()
	var folders []string
	for _, p := range tracked(t, "*go.mod") {
		if folder := path.Dir(p); folder != "." {
			folders = append(folders, folder)
		}
	}
	return folders
}

func isBelow(folder string, folders []string) bool {
	for _, f := range folders {
		if folder == f || strings.HasPrefix(folder, f+"/") {
			return true
		}
	}
	return false
}
