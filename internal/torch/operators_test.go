package torch_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// operatorCase is one call of testdata/operators_*.txt: the shapes of its leaves
// and what is done with them.
type operatorCase struct {
	name   string
	leaves [][]int64
	format dtype.Format // of the leaves; F32 unless named
	second dtype.Format // of the second leaf, where it has another
	run    func(m *torch.Machine, x []torch.Tensor) torch.Tensor
}

func unary(op torch.UnaryOp) func(*torch.Machine, []torch.Tensor) torch.Tensor {
	return func(m *torch.Machine, x []torch.Tensor) torch.Tensor { return m.Unary(op, x[0]) }
}

// operatorCases mirrors oracle/operators.py.
func operatorCases() []operatorCase {
	x, w, b := []int64{4, 64, 128}, []int64{128}, []int64{128}
	weight, bias := []int64{256, 128}, []int64{256}
	one := [][]int64{x}
	list := []operatorCase{
		{name: "linear", leaves: [][]int64{x, weight, bias}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Linear(x[0], x[1], x[2])
		}},
		{name: "linear without bias", leaves: [][]int64{x, weight}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Linear(x[0], x[1], torch.Tensor{})
		}},
		{name: "linear of a transposed input", leaves: [][]int64{x, weight, bias}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Linear(m.Transpose(x[0], 0, 1), x[1], x[2])
		}},
		{name: "linear of rows", leaves: [][]int64{{64, 128}, weight}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Linear(x[0], x[1], torch.Tensor{})
		}},
		{name: "layer_norm", leaves: [][]int64{x, w, b}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.LayerNorm(x[0], x[1], x[2])
		}},
		{name: "rms_norm", leaves: [][]int64{x, w}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.RMSNorm(x[0], x[1])
		}},
		{name: "softmax", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Softmax(x[0], dtype.Unknown)
		}},
		{name: "softmax in float32", leaves: one, format: dtype.BF16, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.To(m.Softmax(x[0], dtype.F32), dtype.BF16)
		}},
		{name: "dropout", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor { return m.Dropout(x[0]) }},
		{name: "embedding", leaves: [][]int64{{1000, 32}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Embedding(x[0], m.Empty("zeros", dtype.I64, 4, 64))
		}},
		{name: "cross_entropy", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.CrossEntropy(m.Reshape(x[0], -1, 128), targets(m, 256))
		}},
		{name: "matmul of heads", leaves: [][]int64{{2, 4, 64, 32}, {2, 4, 32, 64}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Matmul(x[0], x[1])
		}},
		{name: "matmul of a shared matrix", leaves: [][]int64{{2, 4, 64, 32}, {32, 16}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Matmul(x[0], x[1])
		}},
		{name: "matmul of expanded heads", leaves: [][]int64{{2, 4, 64, 32}, {2, 1, 32, 64}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Matmul(x[0], m.Expand(x[1], 2, 4, 32, 64))
		}},
		{name: "rotate_half", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Cat(-1, m.Unary(torch.Neg, m.Slice(x[0], -1, 64, 128)), m.Slice(x[0], -1, 0, 64))
		}},
		{name: "split", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			p := m.Split(x[0], -1, 64, 64)
			return m.Binary(torch.Mul, p[0], p[1])
		}},
		{name: "chunk and swiglu", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			f := m.Function()
			p := m.Split(x[0], -1, 64, 64)
			a, b := f.Let(p[0]), f.Let(p[1])
			return f.Return(m.Binary(torch.Mul, m.Unary(torch.SiLU, a), b))
		}},
		{name: "transpose and reshape", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Reshape(m.Transpose(m.Reshape(x[0], 4, 64, 4, 32), 1, 2), 16, 64, 32)
		}},
		{name: "select", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor { return m.Select(m.WholeSlice(x[0]), 1) }},
		{name: "masked_fill", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.MaskedFill(x[0], m.Empty("ones", dtype.Bool, 64, 128))
		}},
		{name: "mean and square", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Mean(m.Unary(torch.Square, x[0]), true, -1)
		}},
		{name: "logsumexp", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor { return m.LogSumExp(x[0]) }},
		{name: "sum of all", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor { return m.Sum(x[0], false) }},
		{name: "to bfloat16 and back", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.To(m.To(x[0], dtype.BF16), dtype.F32)
		}},
		{name: "expand", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Reshape(m.Expand(m.Unsqueeze(m.WholeSlice(x[0]), 1), 4, 3, 64, 128), 12, 64, 128)
		}},
		{name: "unbind", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			p := m.Unbind(m.Reshape(x[0], 4, 64, 2, 64), 2)
			return m.Binary(torch.Mul, p[0], p[1])
		}},
		{name: "stack", leaves: [][]int64{x, x}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor { return m.Stack(1, x[0], x[1]) }},
		{name: "einsum", leaves: [][]int64{x, weight}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Einsum("bsi,oi->bso", x[0], x[1])
		}},
		{name: "mixed formats", leaves: [][]int64{x, x}, second: dtype.BF16, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Binary(torch.Mul, x[0], x[1])
		}},
		{name: "baddbmm", leaves: [][]int64{{8, 64, 64}, {8, 64, 32}, {8, 32, 64}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Baddbmm(x[0], x[1], x[2], false)
		}},
		{name: "index_add", leaves: [][]int64{{32, 128}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			f := m.Function()
			zeros := f.Let(m.Empty("zeros", dtype.F32, 64, 128))
			ids := m.Empty("arange", dtype.I64, 32)
			rows := m.Unary(torch.MulScalar, x[0])
			return f.Return(m.IndexAdd(m.Clone(zeros, true), ids, rows))
		}},
		{name: "index_select", leaves: [][]int64{{64, 128}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.IndexRows(x[0], m.Empty("zeros", dtype.I64, 30))
		}},
		{name: "gather", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Gather(x[0], -1, m.Empty("zeros", dtype.I64, 4, 64, 1))
		}},
		{name: "max", leaves: one, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			v, i := m.Max(x[0], -1, true)
			m.Drop(i)
			return v
		}},
		{name: "div", leaves: [][]int64{x, {4, 64, 1}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			return m.Binary(torch.Div, x[0], x[1])
		}},
		{name: "scaled_dot_product_attention", leaves: [][]int64{{2, 64, 4, 32}, {2, 64, 4, 32}, {2, 64, 4, 32}}, run: func(m *torch.Machine, x []torch.Tensor) torch.Tensor {
			heads := func(i int) torch.Tensor { return m.Transpose(x[i], 1, 2) }
			return m.Transpose(m.ScaledDotProduct(torch.Attention{Kernel: torch.FlashCPU, Causal: true}, heads(0), heads(1), heads(2), torch.Tensor{}), 1, 2)
		}},
	}
	for name, op := range map[string]torch.UnaryOp{
		"gelu": torch.GELU, "silu": torch.SiLU, "relu": torch.ReLU, "softplus": torch.Softplus, "tanh": torch.Tanh,
		"sigmoid": torch.Sigmoid, "exp": torch.Exp, "rsqrt": torch.Rsqrt, "cos": torch.Cos, "sin": torch.Sin,
		"abs": torch.Abs, "sqrt": torch.Sqrt, "reciprocal": torch.Reciprocal, "erf": torch.Erf,
	} {
		list = append(list, operatorCase{name: name, leaves: one, run: unary(op)})
	}
	return list
}

// targets are made before a case runs, as its gradient is.
func targets(m *torch.Machine, n int64) torch.Tensor {
	return m.Keep(m.Empty("gradient", dtype.I64, n))
}

// TestOperators compares each operator with what PyTorch recorded of it on a
// CPU: every allocation and free of forward and backward, in order.
func TestOperators(t *testing.T) {
	for _, release := range []torch.Release{{Major: 1, Minor: 13}, {Major: 2, Minor: 15}} {
		recorded := readOperators(t, fmt.Sprintf("testdata/operators_%d.%d.txt", release.Major, release.Minor))
		for _, c := range operatorCases() {
			want, is := recorded[c.name]
			if !is {
				continue
			}
			t.Run(fmt.Sprintf("%d.%d %s", release.Major, release.Minor, c.name), func(t *testing.T) {
				if got := strings.Join(c.events(t, release), "\n"); got != want {
					t.Errorf("got\n%s\nrecorded\n%s", got, want)
				}
			})
		}
	}
}

func readOperators(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases := map[string]string{}
	name := ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if title, is := strings.CutPrefix(line, "## "); is {
			name = title
			continue
		}
		if name != "" {
			cases[name] = strings.TrimPrefix(cases[name]+"\n"+line, "\n")
		}
	}
	return cases
}

// events runs a case, and drops blocks of 8 bytes and less as the recording does.
func (c operatorCase) events(t *testing.T, release torch.Release) []string {
	t.Helper()
	m := torch.New(torch.Options{Device: torch.CPU(), Release: release})
	format := c.format
	if format == dtype.Unknown {
		format = dtype.F32
	}
	var leaves []torch.Tensor
	for i, shape := range c.leaves {
		f := format
		if i == 1 && c.second != dtype.Unknown {
			f = c.second
		}
		leaves = append(leaves, m.Parameter(f, true, shape...))
	}
	m.Phase(account.PhaseForward, 1)
	out := m.Keep(c.run(m, leaves))
	// The gradient lies as the output does and was made before.
	gradient := m.Keep(m.Like("gradient", out))
	m.BackwardWith(out, gradient)
	for _, leaf := range leaves {
		m.ZeroGrad(leaf, true)
	}
	m.Drop(out)
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	return compact(tl)
}

// compact spells the events as the recordings do.
func compact(tl *timeline.Timeline) []string {
	skip := map[uint32]bool{}
	for i, a := range tl.Allocs {
		stack := tl.Stacks.Stack(a.Stack)
		skip[uint32(i)] = a.Requested <= 8 || len(stack) > 0 && tl.Stacks.Function(stack[0]) == "gradient"
	}
	number := map[uint32]int{}
	var list []string
	for _, e := range tl.Events {
		bytes := tl.Allocs[e.Alloc].Requested
		if skip[e.Alloc] {
			continue
		}
		if e.Kind == timeline.Born {
			number[e.Alloc] = len(number)
			list = append(list, fmt.Sprintf("+ %d", bytes))
		} else {
			list = append(list, fmt.Sprintf("- %d", number[e.Alloc]))
		}
	}
	return list
}
