// Package allocator is PyTorch's native caching allocator for one device, as a
// pure state machine.
//
// In: the actions of a program, one call each ([Allocator.Malloc],
// [Allocator.FreeRequested], [Allocator.FreeCompleted], [Allocator.EmptyCache],
// [Allocator.RecordStream], [Allocator.Configure]), and the answers of a
// [Driver], which grants or refuses memory. Out: addresses, segments and the
// statistics of torch.cuda.memory_stats. [ParseConf] reads the text of
// PYTORCH_ALLOC_CONF; what differs between releases of PyTorch is data, in
// [Rules].
//
// The same inputs and the same answers give the same state, always: there is no
// clock, no goroutine and no order of a map in it. So a replay can feed the
// addresses that a driver once gave and must find every recorded address again,
// and a what-if can put a model of a card ([Card]) in the driver's place.
//
// It does not know what an allocation is for, where a trace comes from, or
// what else lives on the card. It prints nothing and reads nothing.
//
// The rules follow c10/cuda/CUDACachingAllocator.cpp and
// c10/core/AllocatorConfig.cpp of PyTorch (2024 to 2026):
// https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp
package allocator
