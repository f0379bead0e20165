// Package torch is PyTorch's eager mode without values: it runs a program of
// operators and writes down which bytes are allocated and freed, in order.
//
// In: a device and a release ([Options]), then calls in the order of the Python
// program that they stand for: operators ([Machine.Linear], [Machine.Binary]),
// calls of modules and functions ([Machine.Module]), [Machine.Backward], phases.
// Out: a [timeline.Timeline] with a term for what each allocation turned out to
// be for.
//
// Nothing is estimated. Tensors have shapes, strides, formats, storages and
// reference counts; autograd has nodes, edges and saved tensors, and its engine
// runs them in PyTorch's order; Python's names and temporaries die when
// CPython's do. An operator is a contract: what it allocates, what it keeps for
// backward, what its backward allocates, what autocast does with it, and what
// differs between releases.
//
// An operator's method takes its temporaries as an expression does: they are
// gone when it returns. A value that is used twice must have a name, in a frame
// or with its maker:
//
//	func (n norm) forward(m *torch.Machine, x torch.Tensor) torch.Tensor {
//		f := m.Module("norm", &x)                          // x is a name now, and the call holds it
//		rms := f.Let(m.Unary(torch.Rsqrt, m.Unary(torch.AddScalar,
//			m.Mean(m.Unary(torch.Square, x), true, -1)))) // temporaries die on the way
//		f.Set(&x, m.Binary(torch.Mul, x, rms))             // the name x is bound again
//		return f.Return(m.Binary(torch.Mul, n.weight, x))  // names die, then what the call held
//	}
//
// The example of [Machine] runs this norm forward and backward, and shows every
// event.
//
// Where a rule comes from is said beside it: a file of PyTorch at a release, or a
// recorded trace. testdata holds what PyTorch recorded of single operators,
// checkpointing and optimizers on a CPU, and the events of published CUDA traces.
// What only kernels of CUDA allocate beside their results is from sources, and
// held against traces (sums, products, sorts) and published peaks (norms, losses,
// gated networks, embeddings); that of attention has no measurement here.
//
// It knows no model, no file and no allocator.
package torch
