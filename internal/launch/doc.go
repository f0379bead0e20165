// Package launch reads the command lines by which people start a serving engine.
//
// In: the words of a command (vllm serve, python -m vllm…, docker run of an image
// of the engine) or a compose file. Out: the model that it names and the workload
// that it declares, how many devices it is given, and what of it was not
// understood. A flag whose bearing on sizes is not modelled is kept as such: no
// verdict over it is "fits".
//
// It reads no model, starts nothing, and knows of an engine its flags only.
package launch
