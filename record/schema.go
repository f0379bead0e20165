package record

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schemaJSON []byte

// JSONSchema is the schema (draft 2020-12) that every record of this version
// satisfies: one alternative a kind, open to further fields.
func JSONSchema() []byte { return bytes.Clone(schemaJSON) }
