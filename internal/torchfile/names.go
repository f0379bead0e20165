package torchfile

import (
	"floodmark/dtype"
	"floodmark/internal/pickle"
)

// role is what a Python name of the closed list stands for.
type role uint8

const (
	rebuildTensor    role = iota // _rebuild_tensor, _rebuild_tensor_v2
	rebuildTensorV3              // with a dtype of its own, over bytes
	rebuildParameter             // torch.nn.Parameter around a tensor
	orderedDict
	torchSize
	storageClass // torch.FloatStorage: its format
	elementType  // torch.float32: its format
)

// global is one name that a checkpoint of tensors may mention.
type global struct {
	name   pickle.Name
	role   role
	format dtype.Format // Unknown for a storage of bytes
}

// globals is the closed list. The storage classes are the typed ones of
// torch/__init__.py; quantised tensors have further names and are not read.
func globals() []global {
	list := []global{
		{pickle.Name{Module: "torch._utils", Name: "_rebuild_tensor"}, rebuildTensor, 0},
		{pickle.Name{Module: "torch._utils", Name: "_rebuild_tensor_v2"}, rebuildTensor, 0},
		{pickle.Name{Module: "torch._utils", Name: "_rebuild_tensor_v3"}, rebuildTensorV3, 0},
		{pickle.Name{Module: "torch._utils", Name: "_rebuild_parameter"}, rebuildParameter, 0},
		{pickle.Name{Module: "collections", Name: "OrderedDict"}, orderedDict, 0},
		{pickle.Name{Module: "torch", Name: "Size"}, torchSize, 0},
		{pickle.Name{Module: "torch.storage", Name: "UntypedStorage"}, storageClass, dtype.Unknown},
		{pickle.Name{Module: "torch", Name: "UntypedStorage"}, storageClass, dtype.Unknown},
	}
	for _, class := range []struct {
		name   string
		format dtype.Format
	}{
		{"DoubleStorage", dtype.F64}, {"FloatStorage", dtype.F32}, {"HalfStorage", dtype.F16}, {"BFloat16Storage", dtype.BF16},
		{"LongStorage", dtype.I64}, {"IntStorage", dtype.I32}, {"ShortStorage", dtype.I16}, {"CharStorage", dtype.I8},
		{"ByteStorage", dtype.U8}, {"BoolStorage", dtype.Bool},
		{"ComplexFloatStorage", dtype.C64}, {"ComplexDoubleStorage", dtype.C128},
	} {
		list = append(list, global{pickle.Name{Module: "torch", Name: class.name}, storageClass, class.format})
	}
	for _, name := range []string{
		"float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
		"int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool", "complex64", "complex128",
	} {
		format, _ := dtype.Parse(name)
		list = append(list, global{pickle.Name{Module: "torch", Name: name}, elementType, format})
	}
	return list
}

// names is the list as the pickle reader wants it.
func names(list []global) []pickle.Name {
	out := make([]pickle.Name, len(list))
	for i, g := range list {
		out[i] = g.name
	}
	return out
}
