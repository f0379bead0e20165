// Package vllm is what vLLM holds on one rank: weights, the profile run, the KV
// cache that fills its budget, and graph capture.
//
// In: an estimate.Input. Out: an estimate.Result whose capacity is the blocks and
// tokens that the budget leaves room for. What differs between versions is a row
// of a table with its source.
//
// It runs no server, reads no log, and knows no other engine.
package vllm
