package model

import (
	"testing"

	"floodmark/account"
	"floodmark/dtype"
)

// A stated format fills what the files leave open, and nothing else.
func TestStated(t *testing.T) {
	m := &Model{
		Tensors: []Tensor{{Name: "a", Shape: []int64{10}, TiedTo: NotTied}, {Name: "b", Shape: []int64{10}, Stored: dtype.F32, TiedTo: NotTied}},
		Unknown: []Unknown{{Field: "torch_dtype", Value: "absent", FormatOnly: true}, {Field: "other_size"}},
	}
	s := m.Stated(dtype.BF16)
	if s.Tensors[0].Stored != dtype.BF16 || s.Tensors[1].Stored != dtype.F32 || s.Compute != dtype.BF16 || s.FormatOrigin != account.Assumed {
		t.Errorf("%+v", s)
	}
	if len(s.Unknown) != 1 || s.Unknown[0].Field != "other_size" {
		t.Errorf("unknown: %+v", s.Unknown)
	}
	if m.Tensors[0].Stored != dtype.Unknown || len(m.Unknown) != 2 {
		t.Error("the model itself changed")
	}
}
