package internal_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "floodmark"

// words are the packages that every other may import. Among themselves they
// import only what the list allows.
func words() []string {
	return []string{"account", "bytesize", "dtype", "internal/source", "internal/sorting"}
}

// layers is the import list of ARCHITECTURE.md: package to the packages that it
// may import. The root package is called by the module's name there.
type layers map[string][]string

// readLayers reads the block that starts with ```imports.
func readLayers(document string) (layers, error) {
	_, block, found := strings.Cut(document, "\n```imports\n")
	if !found {
		return nil, fmt.Errorf("there is no block that begins with ```imports")
	}
	block, _, found = strings.Cut(block, "\n```")
	if !found {
		return nil, fmt.Errorf("the block of imports does not end")
	}
	list := layers{}
	for line := range strings.SplitSeq(block, "\n") {
		pkg, allowed, found := strings.Cut(line, ":")
		if !found {
			return nil, fmt.Errorf("%q is not `package: packages that it may import`", line)
		}
		if _, twice := list[pkg]; twice {
			return nil, fmt.Errorf("%s is listed twice", pkg)
		}
		list[pkg] = strings.Fields(allowed)
	}
	for pkg, allowed := range list {
		for _, a := range allowed {
			if _, known := list[a]; !known && a != "*" {
				return nil, fmt.Errorf("%s may import %s, which is not listed", pkg, a)
			}
		}
	}
	return list, nil
}

// allows says whether the list lets one package import another.
func (l layers) allows(from, to string) bool {
	if slices.Contains(l[from], to) || slices.Contains(l[from], "*") {
		return true
	}
	return slices.Contains(words(), to) && !slices.Contains(words(), from)
}

// breaches lists the imports of a file that the list does not allow.
func (l layers) breaches(f *file) []string {
	var list []string
	from := packageName(f.folder)
	for _, spec := range f.syntax.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil || to != module && !strings.HasPrefix(to, module+"/") {
			continue
		}
		if to = strings.TrimPrefix(to, module+"/"); !l.allows(from, to) {
			list = append(list, fmt.Sprintf("%s: %s may not import %s", f.at(spec), from, to))
		}
	}
	return list
}

// packageName is how the list calls a folder.
func packageName(folder string) string {
	if folder == "." {
		return module
	}
	return folder
}

// TestLayers holds every import of the project against ARCHITECTURE.md, and the
// list there against the packages that exist.
func TestLayers(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := readLayers(string(document))
	if err != nil {
		t.Fatalf("ARCHITECTURE.md: %v", err)
	}
	exist := map[string]bool{}
	others := otherModules(t)
	for _, f := range goFiles(t) {
		if f.isTest() || isBelow(f.folder, others) {
			continue
		}
		pkg := packageName(f.folder)
		if _, listed := list[pkg]; !listed && !exist[pkg] {
			t.Errorf("package %s is not in the import list of ARCHITECTURE.md", pkg)
		}
		exist[pkg] = true
		for _, breach := range list.breaches(f) {
			t.Error(breach)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(list)) {
		if !exist[pkg] {
			t.Errorf("ARCHITECTURE.md lists %s, which does not exist", pkg)
		}
	}
}

func TestReadLayersRefuses(t *testing.T) {
	for _, c := range []struct{ name, document, err string }{
		{"no block", "# Architecture\n", "no block"},
		{"an open block", "\n```imports\na:\n", "does not end"},
		{"a line without a colon", "\n```imports\na\n```\n", "is not `package"},
		{"a package twice", "\n```imports\na:\na:\n```\n", "twice"},
		{"an unknown package", "\n```imports\na: b\n```\n", "b, which is not listed"},
	} {
		_, err := readLayers(c.document)
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.err)
		}
	}
}

// The rule must be able to fail: each of these imports is judged by a list of
// our own.
func TestLayersAllow(t *testing.T) {
	list := layers{
		module: {"*"}, "account": {"bytesize"}, "bytesize": nil, "internal/source": nil,
		"model": nil, "model/hf": {"model"}, "estimate": {"model"},
	}
	for _, c := range []struct {
		folder, imports string
		want            bool
	}{
		{"estimate", "floodmark/model", true},
		{"estimate", "floodmark/model/hf", false},    // a package below is another one
		{"model", "floodmark/model/hf", false},       // its own as well
		{"model", "floodmark/account", true},         // a word
		{"bytesize", "floodmark/account", false},     // words do not get the words
		{"account", "floodmark/bytesize", true},      //
		{"model", "floodmark/internal/source", true}, //
		{"model", "fmt", true},                       // the standard library is aside
		{"model", "example.org/floodmark", true},     // and so are other modules
		{".", "floodmark/estimate", true},            //
		{"estimate", "floodmark", false},             // nobody imports the root unasked
		{"unlisted", "floodmark/model", false},       //
	} {
		text := fmt.Sprintf("package p\nimport _ %q\n", c.imports)
		breaches := list.breaches(parse(t, c.folder+"/file.go", []byte(text)))
		if (len(breaches) == 0) != c.want {
			t.Errorf("%s importing %s: %v, want allowed %v", c.folder, c.imports, breaches, c.want)
		}
	}
}
