package torch_test

import (
	"fmt"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
)

func spell(i int, e event) string {
	if e.dies {
		return fmt.Sprintf("event %d: -%d (%d bytes)", i, e.of, e.bytes)
	}
	return fmt.Sprintf("event %d: +%d (%d bytes)", i, e.of, e.bytes)
}

// TestOtherCourseModel is another author's run of the same program: 12 layers,
// forward and backward with gradients that are there already; logits and loss of
// the iteration before live until they are bound again.
func TestOtherCourseModel(t *testing.T) {
	m := torch.New(torch.Options{Device: torch.A100(), Release: torch.Release{Major: 2, Minor: 10}})
	c := &course{layers: 12, width: 768, hidden: 3072, heads: 12, vocabulary: 10000, context: 256, batch: 32}
	c.build(m)
	for _, p := range c.parameters() {
		m.GradOf(p)
	}
	m.Workspace(true)
	oldLogits, oldLoss := m.Input(dtype.F32, 32, 256, 10000), m.Input(dtype.F32)
	m.Phase(account.PhaseForward, 2)
	logits := m.Keep(c.forward(c.ids))
	m.Drop(oldLogits)
	m.Phase(account.PhaseLoss, 2)
	loss := m.Keep(c.loss(logits, c.targets))
	m.Drop(oldLoss)
	m.Phase(account.PhaseBackward, 2)
	m.Backward(loss)
	compare(t, finished(t, m), readTrace(t, "magma27"), 1)
}

// TestPlainAttention is a third author's: attention by hand over 4,096 positions,
// forward and backward, in a process that never multiplied before.
func TestPlainAttention(t *testing.T) {
	m := torch.New(torch.Options{Device: torch.A100(), Release: torch.Release{Major: 2, Minor: 6}})
	m.Phase(account.PhaseForward, 1)
	var qkv []torch.Tensor
	for range 3 {
		x := m.Keep(m.Empty("randn", dtype.F32, 8, 4096, 16))
		qkv = append(qkv, m.RequireGrad(x))
	}
	out := m.Keep(plainAttention(m, qkv[0], qkv[1], qkv[2]))
	loss := m.Keep(m.Sum(out, false))
	m.Backward(loss)
	compare(t, finished(t, m), readTrace(t, "silmont2000"), 1)
}

func plainAttention(m *torch.Machine, q, k, v torch.Tensor) torch.Tensor {
	f := m.Function(&q, &k, &v)
	scores := f.Let(m.Unary(torch.DivScalar, m.Einsum("bqd,bkd->bqk", q, k)))
	weights := f.Let(plainSoftmax(m, scores))
	return f.Return(m.Einsum("bqk,bkd->bqd", weights, v))
}

func plainSoftmax(m *torch.Machine, x torch.Tensor) torch.Tensor {
	f := m.Function(&x)
	values, indices := m.Max(x, -1, true)
	most, _ := f.Let(values), f.Let(indices)
	exp := f.Let(m.Unary(torch.Exp, m.Binary(torch.Sub, x, most)))
	sum := f.Let(m.Sum(exp, true, -1))
	return f.Return(m.Binary(torch.Div, exp, sum))
}
