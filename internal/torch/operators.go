package torch

// UnaryOp names an operator of one operand, a number beside it included.
type UnaryOp uint8

// The operators of one operand.
const (
	Neg UnaryOp = iota
	Exp
	Log
	Sqrt
	Rsqrt
	Sigmoid
	Tanh
	SiLU
	GELU
	ReLU
	Square // pow(x, 2)
	Pow    // pow(x, any other number)
	Cos
	Sin
	Abs
	Erf
	Softplus
	Reciprocal
	AddScalar
	SubScalar
	RsubScalar // number − x
	MulScalar
	DivScalar
	Clamp
	EqScalar // comparisons with a number, and the logical ones
	LogicalNot
	unaryCount
)

// BinaryOp names an operator of two operands.
type BinaryOp uint8

// The operators of two operands.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div
	Ge // every comparison
	And
	Maximum
	PowTensor
	AddScaled // x + number · y
	binaryCount
)

// unaryContracts is what each operator of one operand saves and computes in
// backward
// (https://github.com/pytorch/pytorch/blob/v2.9.0/tools/autograd/derivatives.yaml).
func unaryContracts(Release) [unaryCount]elementwise {
	var c [unaryCount]elementwise
	c[Neg] = elementwise{name: "neg", node: "NegBackward0", backward: negBackward}
	c[Exp] = elementwise{name: "exp", node: "ExpBackward0", class: float32s, saves: savesResult, backward: timesSaved}
	c[Log] = elementwise{name: "log", node: "LogBackward0", class: float32s, saves: savesSelf, backward: logBackward}
	c[Sqrt] = elementwise{name: "sqrt", node: "SqrtBackward0", saves: savesResult, backward: sqrtBackward}
	c[Rsqrt] = elementwise{name: "rsqrt", node: "RsqrtBackward0", class: float32s, saves: savesResult, backward: rsqrtBackward}
	c[Sigmoid] = elementwise{name: "sigmoid", node: "SigmoidBackward0", saves: savesResult, backward: onePass("sigmoid_backward")}
	c[Tanh] = elementwise{name: "tanh", node: "TanhBackward0", saves: savesResult, backward: onePass("tanh_backward")}
	c[SiLU] = elementwise{name: "silu", node: "SiluBackward0", saves: savesSelf, backward: onePass("silu_backward")}
	c[GELU] = elementwise{name: "gelu", node: "GeluBackward0", saves: savesSelf, backward: onePass("gelu_backward")}
	c[ReLU] = elementwise{name: "relu", node: "ReluBackward0", saves: savesResult, backward: onePass("threshold_backward")}
	c[Square] = elementwise{name: "pow", node: "PowBackward0", class: float32s, saves: savesSelf, backward: powBackward}
	c[Pow] = c[Square]
	c[Cos] = elementwise{name: "cos", node: "CosBackward0", saves: savesSelf, backward: cosBackward}
	c[Sin] = elementwise{name: "sin", node: "SinBackward0", saves: savesSelf, backward: sinBackward}
	c[Abs] = elementwise{name: "abs", node: "AbsBackward0", saves: savesSelf, backward: absBackward}
	c[Erf] = elementwise{name: "erf", node: "ErfBackward0", saves: savesSelf, backward: erfBackward}
	c[Softplus] = elementwise{name: "softplus", node: "SoftplusBackward0", class: float32s, saves: savesSelf, backward: onePass("softplus_backward")}
	c[Reciprocal] = elementwise{name: "reciprocal", node: "ReciprocalBackward0", class: float32s, saves: savesResult, backward: reciprocalBackward}
	c[AddScalar] = elementwise{name: "add", node: "AddBackward0", backward: passOn}
	c[SubScalar] = elementwise{name: "sub", node: "SubBackward0", backward: passOn}
	c[RsubScalar] = elementwise{name: "rsub", node: "RsubBackward1", backward: negBackward}
	c[MulScalar] = elementwise{name: "mul", node: "MulBackward0", backward: onePass("mul")}
	c[DivScalar] = elementwise{name: "div", node: "DivBackward0", backward: onePass("div")}
	c[Clamp] = elementwise{name: "clamp", node: "ClampBackward1", saves: savesSelf, backward: clampBackward}
	c[EqScalar] = elementwise{name: "eq", boolean: true}
	c[LogicalNot] = elementwise{name: "logical_not", boolean: true}
	return c
}

func binaryContracts() [binaryCount]elementwise {
	var c [binaryCount]elementwise
	c[Add] = elementwise{name: "add", node: "AddBackward0", backward: addBackward}
	c[AddScaled] = elementwise{name: "add", node: "AddBackward0", backward: addScaledBackward}
	c[Sub] = elementwise{name: "sub", node: "SubBackward0", backward: subBackward}
	c[Mul] = elementwise{name: "mul", node: "MulBackward0", saves: savesCross, backward: mulBackward}
	c[Div] = elementwise{name: "div", node: "DivBackward0", saves: savesOther | savesForOther, backward: divBackward}
	c[Ge] = elementwise{name: "ge", boolean: true}
	c[And] = elementwise{name: "bitwise_and", boolean: true}
	c[Maximum] = elementwise{name: "maximum", node: "MaximumBackward0", saves: savesOther | savesSelf, backward: maximumBackward}
	c[PowTensor] = elementwise{name: "pow", class: float32s}
	return c
}

// Backward programs: what each gradient allocates, in order.

func passOn(p *pass) { p.same(0, p.grad()) }

func negBackward(p *pass) { p.give(0, p.m.like("neg", p.grad())) }

// onePass is a kernel that reads the gradient and what was saved, and writes one
// tensor.
func onePass(op string) backward {
	return func(p *pass) {
		if len(p.n.saved) == 0 {
			p.give(0, p.m.like(op, p.grad()))
			return
		}
		p.give(0, p.m.both(op, p.grad(), p.saved(0)))
	}
}

func timesSaved(p *pass) { p.give(0, p.m.both("mul", p.grad(), p.saved(0))) }

func logBackward(p *pass) { p.give(0, p.m.both("div", p.grad(), p.saved(0))) }

// sqrtBackward: grad / (2 * result).
func sqrtBackward(p *pass) {
	twice := p.hold(p.m.like("mul", p.saved(0)))
	p.give(0, p.m.both("div", p.grad(), twice))
}

// rsqrtBackward: -0.5 * grad * result.pow(3).
func rsqrtBackward(p *pass) {
	cube := p.hold(p.m.like("pow", p.saved(0)))
	half := p.hold(p.m.like("mul", p.grad()))
	p.give(0, p.m.both("mul", half, cube))
}

// powBackward: grad * (exponent * self.pow(exponent - 1)).
func powBackward(p *pass) {
	power := p.hold(p.m.like("pow", p.saved(0)))
	scaled := p.hold(p.m.like("mul", power))
	p.give(0, p.m.both("mul", p.grad(), scaled))
}

// reciprocalBackward: -grad * (result * result).
func reciprocalBackward(p *pass) {
	square := p.hold(p.m.like("mul", p.saved(0)))
	minus := p.hold(p.m.like("neg", p.grad()))
	p.give(0, p.m.both("mul", minus, square))
}

// cosBackward: grad * -self.sin().
func cosBackward(p *pass) {
	sin := p.hold(p.m.like("sin", p.saved(0)))
	minus := p.hold(p.m.like("neg", sin))
	p.give(0, p.m.both("mul", p.grad(), minus))
}

// sinBackward: grad * self.cos().
func sinBackward(p *pass) {
	cos := p.hold(p.m.like("cos", p.saved(0)))
	p.give(0, p.m.both("mul", p.grad(), cos))
}

// absBackward: grad * self.sgn().
func absBackward(p *pass) {
	sign := p.hold(p.m.like("sgn", p.saved(0)))
	p.give(0, p.m.both("mul", p.grad(), sign))
}

// erfBackward: 2 / sqrt(pi) * exp(-(self.pow(2))) * grad.
func erfBackward(p *pass) {
	square := p.hold(p.m.like("pow", p.saved(0)))
	minus := p.hold(p.m.like("neg", square))
	exp := p.hold(p.m.like("exp", minus))
	scaled := p.hold(p.m.like("mul", exp))
	p.give(0, p.m.both("mul", scaled, p.grad()))
}

// clampBackward: where((self >= min).logical_and_(self <= max), grad, 0).
func clampBackward(p *pass) {
	zero := p.hold(p.m.scalar(p.grad().dtype))
	low := p.hold(p.m.comparison(p.saved(0)))
	high := p.hold(p.m.comparison(p.saved(0)))
	_ = high
	p.give(0, p.m.selected(low, p.grad(), zero))
}

// addScaledBackward: what was scaled gets the gradient times the number.
func addScaledBackward(p *pass) {
	if p.needs(1) {
		p.give(1, p.m.like("mul", p.grad()))
	}
	if p.needs(0) {
		p.same(0, p.grad())
	}
}

func addBackward(p *pass) {
	if p.needs(1) {
		p.same(1, p.grad())
	}
	if p.needs(0) {
		p.same(0, p.grad())
	}
}

func subBackward(p *pass) {
	if p.needs(1) {
		p.give(1, p.m.like("neg", p.grad()))
	}
	if p.needs(0) {
		p.same(0, p.grad())
	}
}

func mulBackward(p *pass) {
	if p.needs(1) {
		p.give(1, p.m.both("mul", p.grad(), p.savedSelf()))
	}
	if p.needs(0) {
		p.give(0, p.m.both("mul", p.grad(), p.savedOther()))
	}
}

// divBackward: other: -grad * ((self / other) / other); self: grad / other.
func divBackward(p *pass) {
	if p.needs(1) {
		quotient := p.hold(p.m.both("div", p.savedSelf(), p.savedOther()))
		again := p.hold(p.m.both("div", quotient, p.savedOther()))
		minus := p.hold(p.m.like("neg", p.grad()))
		p.give(1, p.m.both("mul", minus, again))
	}
	if p.needs(0) {
		p.give(0, p.m.both("div", p.grad(), p.savedOther()))
	}
}

// maximumBackward halves the gradient where both are equal:
// at::where(self == other, grad / 2, grad).masked_fill_(self < other, 0).
func maximumBackward(p *pass) {
	for _, input := range []int{1, 0} {
		if !p.needs(input) {
			continue
		}
		half := p.hold(p.m.like("div", p.grad()))
		equal := p.hold(p.m.comparisonOf(p.savedSelf(), p.savedOther()))
		r := p.m.selected(equal, half, p.grad())
		p.hold(p.m.comparisonOf(p.savedSelf(), p.savedOther()))
		p.give(input, r)
	}
}
