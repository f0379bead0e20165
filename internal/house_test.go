package internal_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	mostLines         = 500 // of a file
	mostLinesFunction = 80  // of a function outside tests
)

// TestHouse holds every Go file against the rules of CONTRIBUTING.md.
func TestHouse(t *testing.T) {
	files := goFiles(t)
	for _, f := range files {
		for _, breach := range breaches(f) {
			t.Error(breach)
		}
	}
	for _, breach := range undocumentedPackages(files) {
		t.Error(breach)
	}
}

// breaches lists what one file does that it may not.
func breaches(f *file) []string {
	list := slices.Concat(forbiddenName(f), tooLong(f))
	if f.isTest() {
		return list
	}
	list = slices.Concat(list, longFunctions(f), initFunctions(f), variables(f), edges(f))
	if strings.HasPrefix(f.path, "internal/") || strings.Contains(f.path, "/internal/") {
		return list
	}
	return append(list, undocumented(f)...)
}

// undocumentedPackages lists the packages without a doc.go that says what they
// are ("Package account is …"), and the programs whose file does not ("Command
// tally …").
func undocumentedPackages(files []*file) []string {
	documented := map[string]bool{}
	for _, f := range files {
		if f.isTest() {
			continue
		}
		documented[f.folder] = documented[f.folder] || (path.Base(f.path) == "doc.go" || f.isProgram()) && isPackageComment(f)
	}
	var list []string
	for folder, is := range documented {
		if !is {
			list = append(list, fmt.Sprintf("%s: no doc.go with a comment that begins with the package's name", folder))
		}
	}
	slices.Sort(list)
	return list
}

func isPackageComment(f *file) bool {
	begin := "Package " + f.syntax.Name.Name + " "
	if f.isProgram() {
		begin = "Command " + path.Base(f.folder) + " "
	}
	return strings.HasPrefix(f.syntax.Doc.Text(), begin)
}

// forbiddenName refuses packages named for what they are not.
func forbiddenName(f *file) []string {
	name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
	for _, word := range []string{"util", "common", "helper", "manager"} {
		if strings.Contains(name, word) || strings.Contains(path.Base(f.folder), word) {
			return []string{fmt.Sprintf("%s: a package is not called %s: name its idea", f.path, word)}
		}
	}
	return nil
}

func tooLong(f *file) []string {
	if f.lines <= mostLines {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d lines, more than %d", f.path, f.lines, mostLines)}
}

func longFunctions(f *file) []string {
	var list []string
	for _, d := range f.syntax.Decls {
		fn, is := d.(*ast.FuncDecl)
		if !is {
			continue
		}
		lines := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1
		if lines > mostLinesFunction {
			list = append(list, fmt.Sprintf("%s: %s has %d lines, more than %d", f.at(fn), fn.Name.Name, lines, mostLinesFunction))
		}
	}
	return list
}

func initFunctions(f *file) []string {
	var list []string
	for _, d := range f.syntax.Decls {
		if fn, is := d.(*ast.FuncDecl); is && fn.Recv == nil && fn.Name.Name == "init" {
			list = append(list, f.at(fn)+": func init: work happens when it is asked for")
		}
	}
	return list
}

// variables refuses package variables, which anybody could change, except
// those that nobody does: sentinel errors, embedded files, compiled patterns
// and the assertion that a type has an interface.
func variables(f *file) []string {
	var list []string
	for _, d := range f.syntax.Decls {
		decl, is := d.(*ast.GenDecl)
		if !is || decl.Tok != token.VAR {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			if isEmbedded(decl.Doc) || isEmbedded(spec.Doc) {
				continue
			}
			for i, name := range spec.Names {
				if !isConstantInSpirit(spec, i) {
					list = append(list, fmt.Sprintf("%s: package variable %s: return a fresh value from a function", f.at(name), name.Name))
				}
			}
		}
	}
	return list
}

// edges refuses what only the edge of the program does: printing, and ending
// the process.
func edges(f *file) []string {
	for _, edge := range []string{"cmd", "tools", "examples", "internal/cli", "internal/report"} {
		if isBelow(f.folder, []string{edge}) {
			return nil
		}
	}
	var list []string
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		selector, is := n.(*ast.SelectorExpr)
		if !is {
			return true
		}
		switch name := qualified(selector); name {
		case "fmt.Print", "fmt.Printf", "fmt.Println", "os.Stdout", "os.Stderr", "os.Exit", "log.Print", "log.Printf", "log.Println", "log.Fatal", "log.Fatalf":
			list = append(list, fmt.Sprintf("%s: %s: return a value, or take an io.Writer", f.at(n), name))
		}
		return true
	})
	return list
}

func isEmbedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

func isConstantInSpirit(spec *ast.ValueSpec, i int) bool {
	name := spec.Names[i].Name
	if name == "_" {
		return spec.Type != nil
	}
	if len(spec.Values) != len(spec.Names) {
		return false
	}
	switch called(spec.Values[i]) {
	case "regexp.MustCompile", "pattern": // pattern compiles on first use
		return true
	case "errors.New", "fmt.Errorf":
		return strings.HasPrefix(name, "Err") || strings.HasPrefix(name, "err")
	}
	return false
}

// called is the name of the function that an expression calls, qualified where
// it comes from another package.
func called(e ast.Expr) string {
	call, is := e.(*ast.CallExpr)
	if !is {
		return ""
	}
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return qualified(fun)
	}
	return ""
}

// qualified is a selector on a plain name, as "os.Exit"; empty on anything else.
func qualified(selector *ast.SelectorExpr) string {
	pkg, is := selector.X.(*ast.Ident)
	if !is {
		return ""
	}
	return pkg.Name + "." + selector.Sel.Name
}

// undocumented lists the exported names without a comment that begins with the
// name. In a parenthesised list of constants or variables a comment on the
// list, one at the end of the line or the type of an enumeration will do.
func undocumented(f *file) []string {
	var list []string
	missing := func(n ast.Node, name string) {
		list = append(list, fmt.Sprintf("%s: exported %s has no comment that begins with its name", f.at(n), name))
	}
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && isExportedReceiver(d.Recv) && !begins(d.Doc, d.Name.Name) {
				missing(d, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				for _, name := range undocumentedIn(d, s) {
					missing(name, name.Name)
				}
			}
		}
	}
	return list
}

func undocumentedIn(d *ast.GenDecl, s ast.Spec) []*ast.Ident {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && !begins(s.Doc, s.Name.Name) && (d.Lparen.IsValid() || !begins(d.Doc, s.Name.Name)) {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if d.Lparen.IsValid() && (d.Doc != nil || s.Doc != nil || s.Comment != nil || isEnumeration(d, s)) {
			return nil
		}
		var list []*ast.Ident
		for _, name := range s.Names {
			if name.IsExported() && !begins(d.Doc, name.Name) {
				list = append(list, name)
			}
		}
		return list
	}
	return nil
}

// isEnumeration: the constant says its type, or continues an iota that did;
// the comment on the type explains it.
func isEnumeration(d *ast.GenDecl, s *ast.ValueSpec) bool {
	if d.Tok != token.CONST {
		return false
	}
	if s.Type != nil || len(s.Values) > 0 {
		return s.Type != nil
	}
	first, is := d.Specs[0].(*ast.ValueSpec)
	return is && first.Type != nil
}

func begins(doc *ast.CommentGroup, name string) bool {
	text := doc.Text()
	return strings.HasPrefix(text, name+" ") || strings.HasPrefix(text, name+",") ||
		strings.HasPrefix(text, name+":") || strings.HasPrefix(text, name+"\n")
}

func isExportedReceiver(recv *ast.FieldList) bool {
	if recv == nil || len(recv.List) == 0 {
		return true
	}
	e := recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
