package torch

import "floodmark/dtype"

// Algorithm is what an optimizer computes.
type Algorithm uint8

// The algorithms that are described.
const (
	AdamW     Algorithm = iota // torch.optim.AdamW and Adam
	SGD                        // torch.optim.SGD
	Lion                       // lion-pytorch
	Adafactor                  // transformers' Adafactor, without a first moment
	AdamW8bit                  // bitsandbytes, in blocks
	RMSprop                    // torch.optim.RMSprop, neither centred nor with momentum
	Adamax                     // torch.optim.Adamax
	NAdam                      // torch.optim.NAdam
)

// rooted reports an algorithm of torch.optim that makes its states of all parameters
// first, and divides by something of each parameter's size.
func (a Algorithm) rooted() bool { return a == AdamW || a >= RMSprop }

// Form is how an optimizer of torch.optim goes over the parameters.
type Form uint8

// The forms of torch.optim.
const (
	Foreach Form = iota // lists of tensors at once: PyTorch's choice on CUDA
	ForLoop             // one parameter after another: its choice on a CPU
	Fused               // one kernel, without temporaries
)

// OptimizerOptions say which optimizer runs.
type OptimizerOptions struct {
	Algorithm   Algorithm
	Form        Form
	Momentum    bool         // of SGD
	Nesterov    bool         // of SGD
	WeightDecay bool         // of SGD, where it is added to the gradient
	State       dtype.Format // of the moments; Unknown: the parameter's own
}

// Optimizer holds the state of an optimizer on a machine.
type Optimizer struct {
	m          *Machine
	o          OptimizerOptions
	parameters []Tensor
	state      [][]Tensor // by parameter; nil before its first step
	held       []Tensor   // what a loop's names hold from one parameter to the next
}

// NewOptimizer is an optimizer over parameters, in their order. It has no state
// before its first step.
func (m *Machine) NewOptimizer(o OptimizerOptions, parameters []Tensor) *Optimizer {
	return &Optimizer{m: m, o: o, parameters: parameters, state: make([][]Tensor, len(parameters))}
}

// Restore gives every parameter the state that an earlier step left.
func (o *Optimizer) Restore() {
	for i, p := range o.parameters {
		if p.requiresGrad {
			o.initialise(i)
		}
	}
}

// Step updates every parameter that has a gradient. The first one makes the
// state.
func (o *Optimizer) Step() {
	o.m.NoGrad(o.step)
}

func (o *Optimizer) step() {
	var ready []int
	perParameter := !o.o.Algorithm.rooted()
	for i, p := range o.parameters {
		if p.grad == nil {
			continue
		}
		ready = append(ready, i)
		if !perParameter && o.state[i] == nil {
			o.initialise(i)
		}
	}
	if o.o.Algorithm == SGD && o.o.Form != ForLoop {
		o.togetherSGD(ready)
		return
	}
	for _, i := range ready {
		if o.o.Algorithm == SGD {
			o.aloneSGD(i)
			continue
		}
		if perParameter && o.state[i] == nil {
			o.initialise(i)
		}
		o.alone(i)
	}
	if o.o.Algorithm.rooted() && o.o.Form == Foreach {
		o.togetherAdamW(ready)
	}
	o.rebind()
}

// initialise makes the state of a parameter, as the first step does.
func (o *Optimizer) initialise(i int) {
	p := o.parameters[i]
	o.state[i] = []Tensor{}
	switch o.o.Algorithm {
	case AdamW, Adamax, NAdam:
		if o.o.Form == Fused {
			o.keep(i, "zeros", dtype.F32)
		}
		o.keepLike(i)
		o.keepLike(i)
	case SGD:
		if o.o.Momentum {
			o.keepLike(i)
		}
	case Lion, RMSprop:
		o.keepLike(i)
	case Adafactor:
		o.initialiseAdafactor(i, p.Shape())
	case AdamW8bit:
		o.initialise8bit(i)
	}
}

func (o *Optimizer) keep(i int, op string, f dtype.Format, shape ...int64) {
	o.state[i] = append(o.state[i], o.m.AsState(o.m.Keep(o.m.Empty(op, f, shape...))))
}

// keepLike is a moment in the shape and layout of the parameter.
func (o *Optimizer) keepLike(i int) {
	m, p := o.m, o.parameters[i]
	f := o.o.State
	if f == dtype.Unknown {
		f = p.dtype
	}
	m.sites.op = "zeros_like"
	o.state[i] = append(o.state[i], m.AsState(m.Keep(result(m.emptyLike(f, p.impl)))))
}

// initialiseAdafactor: a matrix has a number for each row and each column, and
// anything else its whole second moment, in 32 bits
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/optimization.py).
func (o *Optimizer) initialiseAdafactor(i int, shape []int64) {
	if n := len(shape); n >= 2 {
		columns := append(append([]int64(nil), shape[:n-2]...), shape[n-1])
		o.keep(i, "zeros", dtype.F32, shape[:n-1]...)
		o.keep(i, "zeros", dtype.F32, columns...)
		return
	}
	o.keep(i, "zeros", dtype.F32, shape...)
}

// blockwise is the values that share a scale in an 8-bit optimizer, and
// leastBlockwise the elements from which on a parameter is kept so
// (https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.45.0/bitsandbytes/optim/optimizer.py).
const (
	blockwise      = 256
	leastBlockwise = 4096
)

func (o *Optimizer) initialise8bit(i int) {
	n := o.parameters[i].Elements()
	if n < leastBlockwise {
		o.keep(i, "zeros", dtype.F32, o.parameters[i].Shape()...)
		o.keep(i, "zeros", dtype.F32, o.parameters[i].Shape()...)
		return
	}
	for range 2 {
		o.keep(i, "zeros", dtype.U8, o.parameters[i].Shape()...)
		o.keep(i, "zeros", dtype.F32, ceilDiv(n, blockwise))
	}
}

// alone is what a step allocates for one parameter by itself.
func (o *Optimizer) alone(i int) {
	m, p := o.m, o.parameters[i]
	m.sites.op, m.sites.node = "step", ""
	switch {
	case o.o.Algorithm.rooted() && o.o.Form == ForLoop:
		o.aloneAdamW(i)
	case o.o.Algorithm == Lion:
		// exp_avg.clone().mul_(beta1).add(grad, alpha=…).sign_() lives until the next.
		clone := m.Clone(o.state[i][0], false)
		o.rebind(m.Keep(m.Binary(Add, clone, m.GradientOf(p))))
	case o.o.Algorithm == Adafactor:
		o.aloneAdafactor(i)
	}
}

// rebind binds the names of the loop's body again: the old values go.
func (o *Optimizer) rebind(names ...Tensor) {
	o.m.Drop(o.held...)
	o.held = append(o.held[:0], names...)
}

// aloneAdamW: denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps); NAdam's is
// that too, RMSprop's is the root alone, and Adamax' is named nowhere.
func (o *Optimizer) aloneAdamW(i int) {
	m := o.m
	second := o.state[i][len(o.state[i])-1]
	switch o.o.Algorithm {
	case RMSprop:
		o.rebind(m.Keep(m.Unary(Sqrt, second)))
		return
	case Adamax:
		m.Drop(m.Unary(Abs, second))
		return
	}
	o.rebind(m.Keep(m.Unary(DivScalar, m.Unary(Sqrt, second))))
}

// aloneAdafactor: the gradient and the parameter in 32 bits where they have
// fewer, the square, its approximation, and the update.
func (o *Optimizer) aloneAdafactor(i int) {
	m, p := o.m, o.parameters[i]
	g := m.GradientOf(p)
	if p.dtype != dtype.F32 {
		g = m.Keep(m.To(g, dtype.F32))
		wide := m.Keep(m.To(p, dtype.F32))
		defer m.Drop(wide, g)
	}
	update := m.Keep(m.Unary(AddScalar, m.Unary(Square, g)))
	if p.dims >= 2 {
		m.Drop(m.Mean(update, false, -1), m.Mean(update, false, -2))
		row := m.Keep(m.Binary(Div, o.state[i][0], m.Mean(o.state[i][0], true, -1)))
		column := m.Unary(Rsqrt, m.Unsqueeze(o.state[i][1], -2))
		approximation := m.Keep(m.Binary(Mul, m.Unsqueeze(row, -1), column))
		m.Drop(row, update)
		update = approximation
	} else {
		root := m.Keep(m.Unary(Rsqrt, o.state[i][0]))
		m.Drop(update)
		update = root
	}
	m.Drop(m.Unary(Neg, update))
	o.rebind(update)
}

// aloneSGD: the gradient and the decayed weight, the momentum of the first step,
// and with Nesterov's another gradient. The loop's name is bound to its own
// gradient before.
func (o *Optimizer) aloneSGD(i int) {
	m, p := o.m, o.parameters[i]
	m.sites.op, m.sites.node = "step", ""
	o.rebind()
	g := m.GradientOf(p)
	if o.o.WeightDecay {
		g = m.Keep(m.Binary(Add, g, p))
		o.rebind(g)
	}
	if o.state[i] == nil {
		o.initialise(i)
	}
	if o.o.Momentum && o.o.Nesterov {
		o.rebind(m.Keep(m.Binary(Add, g, o.state[i][0])))
	}
}

// togetherSGD: a list of the gradients with the decayed weights, and the momentum
// of the first step. Nesterov's momentum is added in place.
func (o *Optimizer) togetherSGD(ready []int) {
	var list []Tensor
	if o.o.WeightDecay && o.o.Form == Foreach {
		list = o.gradients(ready)
	}
	for _, i := range ready {
		if o.state[i] == nil {
			o.initialise(i)
		}
	}
	o.backwards(list)
}

// gradients is a list of new tensors like the gradients.
func (o *Optimizer) gradients(ready []int) []Tensor {
	o.m.sites.op, o.m.sites.node = "_foreach_add", ""
	var list []Tensor
	for _, i := range ready {
		list = append(list, result(o.m.emptyLike(o.parameters[i].grad.dtype, o.parameters[i].grad)))
	}
	return list
}

// togetherAdamW: the roots of all second moments.
func (o *Optimizer) togetherAdamW(ready []int) {
	o.m.sites.op, o.m.sites.node = "_foreach_sqrt", ""
	var list []Tensor
	for _, i := range ready {
		second := o.state[i][len(o.state[i])-1]
		list = append(list, result(o.m.emptyLike(second.dtype, second.impl)))
	}
	if o.m.release.addsRootsApart() {
		var sums []Tensor
		for _, root := range list {
			sums = append(sums, result(o.m.emptyLike(root.dtype, root.impl)))
		}
		defer o.backwards(sums)
	}
	o.backwards(list)
}

// backwards ends a list of Python: its last element goes first.
func (o *Optimizer) backwards(list []Tensor) {
	for n := len(list) - 1; n >= 0; n-- {
		o.m.Drop(list[n])
	}
}

// ClipGradNorm is clip_grad_norm_ over parameters: norms of lists, with partial
// results for each 65,536 elements of the largest gradient, and a multiplication
// in place (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/cuda/ForeachReduceOp.cu).
func (m *Machine) ClipGradNorm(parameters []Tensor) {
	var gradients []*impl
	var largest int64
	for _, p := range parameters {
		if p.grad != nil {
			gradients = append(gradients, p.grad)
			largest = max(largest, p.grad.Elements())
		}
	}
	if len(gradients) == 0 {
		return
	}
	m.sites.op = "_foreach_norm"
	count := int64(len(gradients))
	var partial *storage
	if !m.device.CPU {
		partial = m.bufferOf(4 * count * ceilDiv(largest, 65536))
	}
	norms := make([]*impl, count)
	for i, g := range gradients {
		norms[i] = m.empty(g.dtype, nil)
	}
	if partial != nil {
		m.free(partial)
	}
	m.sites.op = "stack"
	stacked := m.empty(gradients[0].dtype, []int64{count})
	m.sites.op = "linalg_vector_norm"
	total := m.empty(gradients[0].dtype, nil)
	m.drop(stacked)
	for i := len(norms) - 1; i >= 0; i-- {
		m.drop(norms[i])
	}
	m.drop(total)
}
