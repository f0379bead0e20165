package model_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model"
)

// tiny is a matrix of 2×3 in 16 bits, a head tied to it, a scale of 4 bytes and
// a buffer of 8.
func tiny() model.Model {
	return model.Model{Tensors: []model.Tensor{
		{Name: "embed", Role: model.RoleTokenEmbedding, Shape: []int64{2, 3}, Stored: dtype.BF16, TiedTo: model.NotTied},
		{Name: "head", Role: model.RoleHead, Shape: []int64{2, 3}, Stored: dtype.BF16, TiedTo: 0},
		{Name: "scale", Role: model.RoleScale, Stored: dtype.F32, TiedTo: model.NotTied},
		{Name: "mask", Role: model.RoleBuffer, Shape: []int64{1}, Stored: dtype.I64, TiedTo: model.NotTied},
	}}
}

// TestTotals counts tied storage once, and scales and buffers as bytes alone.
func TestTotals(t *testing.T) {
	m := tiny()
	if got, exact := m.Parameters().IsExact(); !exact || got != 6 {
		t.Errorf("%d parameters, exact %v", got, exact)
	}
	f := m.WeightsBytes()
	if got, exact := f.IsExact(); !exact || got != 12+4+8 || f.Origin != account.Calculated {
		t.Errorf("%d bytes, exact %v, %s", got, exact, f.Origin)
	}
	if got := m.Formats(); got[dtype.BF16] != 12 || got[dtype.F32] != 4 || got[dtype.I64] != 8 {
		t.Errorf("%v", got)
	}
}

// TestTotalsOfTheUnknown shows what each kind of doubt leaves of the totals.
func TestTotalsOfTheUnknown(t *testing.T) {
	for _, c := range []struct {
		name                 string
		change               func(*model.Model)
		parameters, bytes    bool // exact
		lowParameters, lower int64
		reason               string
	}{
		{"a size", func(m *model.Model) { m.Unknown = []model.Unknown{{Field: "aether"}} }, false, false, 6, 24, "aether"},
		{"a format that nobody states", func(m *model.Model) {
			m.Unknown = []model.Unknown{{Field: "torch_dtype", FormatOnly: true}}
			m.Tensors[0].Stored = dtype.Unknown
		}, true, false, 6, 12, "torch_dtype"},
		{"the format of one tensor", func(m *model.Model) { m.Tensors[0].Stored = dtype.Unknown }, true, false, 6, 12, "embed"},
		{"a count beyond 63 bits", func(m *model.Model) { m.Tensors[0].Shape = []int64{1 << 40, 1 << 40} }, false, false, 0, 12, "embed"},
	} {
		m := tiny()
		c.change(&m)
		p, b := m.Parameters(), m.WeightsBytes()
		_, exactP := p.IsExact()
		_, exactB := b.IsExact()
		if exactP != c.parameters || exactB != c.bytes || p.Low() != c.lowParameters || b.Low() != c.lower || !strings.Contains(b.Reason(), c.reason) {
			t.Errorf("%s: parameters %d (%v), bytes %d (%v): %s", c.name, p.Low(), exactP, b.Low(), exactB, b.Reason())
		}
	}
}

// TestPacked gives a tensor whose words take other bytes than its shape: 3 bits
// for each of 64×32 elements are 6 words for each of 32 columns.
func TestPacked(t *testing.T) {
	x := model.Tensor{Shape: []int64{32, 64}, Stored: dtype.I32, Packed: []int64{6, 32}, TiedTo: model.NotTied}
	parameters, _ := x.Parameters()
	if bytes, fits := x.Bytes(); !fits || bytes != 768 || parameters != 2048 {
		t.Errorf("%d parameters in %d bytes", parameters, bytes)
	}
}

// TestLoose gives a checkpoint that holds texts whose length is not known: an
// interval of that width, assumed where formats are.
func TestLoose(t *testing.T) {
	m := tiny()
	m.Loose, m.FormatOrigin = 10, account.Assumed
	f := m.WeightsBytes()
	if high, known := f.High(); !known || f.Low() != 24 || high != 34 || f.Origin != account.Assumed {
		t.Errorf("%d to %d, %s", f.Low(), high, f.Origin)
	}
}
