// Package torchfile reads which tensors a file of torch.save holds: .bin, .pt
// and .pth, in the zip container of PyTorch 1.6 and later and in the older form
// of several pickles.
//
// In: a [source.Source]. Out: [File]: tensors with name, dtype, shape and
// stride, and the storages that they view, each storage counted once however
// many tensors share it.
//
// Nothing in the file is run and no tensor data is read: the pickle is read as
// plain data, and the few Python names that a checkpoint of tensors needs are
// listed in names.go. The package must not know which model the tensors belong
// to.
//
// The format is what torch/serialization.py (save, _save, _legacy_save) and
// torch/_utils.py (_rebuild_*) of https://github.com/pytorch/pytorch write; the
// container follows PKWARE's APPNOTE.TXT 6.3.
package torchfile
