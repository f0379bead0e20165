package floodmark

import (
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/device"
	"floodmark/dtype"
)

// unpacks is the packing of the checkpoint that transformers does not compute on
// with the request's card. Other software has kernels of its own for it.
func (r Request) unpacks() (device.Packing, bool) {
	plain := []string{"", "eager", "transformers"}
	if r.Card == nil || r.Model == nil || r.Model.Quantised == nil || trains(r.Workload.Operation) || !slices.Contains(plain, r.Workload.Engine.Name) {
		return device.Packing{}, false
	}
	return r.Card.Unpacks(r.Model.Quantised.Method)
}

// unpacked is the request with the weights as they are on its card: where it
// lacks what their format needs, transformers loads them as bfloat16.
func (r Request) unpacked() Request {
	p, is := r.unpacks()
	if !is {
		return r
	}
	r.Model = r.Model.Unpacked(dtype.BF16)
	r.Warnings = append(slices.Clone(r.Warnings), account.Warning{Code: "weights_unpacked",
		Text: fmt.Sprintf("transformers unpacks %s weights to bf16 on a card below compute capability %s, and they are counted as that (%s)", p.Method, p.Capability, p.Source)})
	return r
}
