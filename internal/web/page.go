package web

import (
	"embed"
	"io/fs"
)

//go:embed static
var files embed.FS

// Page is the files of the page, as they were written.
func Page() (fs.FS, error) { return fs.Sub(files, "static") }
