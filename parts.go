package floodmark

import (
	"floodmark/model"
	"floodmark/record"
)

// PartsOf lists parts of a model's weights, as model.ByModule and
// model.ByLayer split them, for a record.
func PartsOf(parts []model.Part) []record.Part {
	var list []record.Part
	for _, p := range parts {
		r := record.Part{Stack: record.Text(p.Stack), Kind: record.Text(string(p.Kind)), Module: record.Text(string(p.Module)),
			Layer: known(p.Layer), Tensors: p.Tensors}
		r.Parameters, _, _ = record.Interval(p.Parameters)
		r.Bytes, r.LowBytes, r.HighBytes = record.Interval(p.Bytes)
		for _, f := range p.Formats {
			r.StoredFormats = append(r.StoredFormats, record.Format{Name: f.Format.String(), Bytes: f.Bytes})
		}
		list = append(list, r)
	}
	return list
}
