package web

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"floodmark/record"
)

// The exported file is whole: it imports nothing, names no address, and a model
// whose name ends an element ends none.
func TestWriteEstimate(t *testing.T) {
	name := "</script><script>alert(1)</script>"
	d := &record.Estimate{}
	d.Model.Name = &name
	var b bytes.Buffer
	if err := WriteEstimate(&b, d); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, refused := range []*regexp.Regexp{regexp.MustCompile(`(?m)^\s*(import|export)\b`), regexp.MustCompile(`(src|href)="[^d]`), regexp.MustCompile(`@import|url\((?:"|')?http`)} {
		if found := refused.FindString(page); found != "" {
			t.Errorf("the file holds %q", found)
		}
	}
	if n := strings.Count(page, "</script>"); n != 2 {
		t.Errorf("%d scripts end, 2 expected: the name of the model is text", n)
	}
	if !strings.Contains(page, "function show(") || !strings.Contains(page, "function element(") {
		t.Error("the page's own modules are missing")
	}
}
