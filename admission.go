package floodmark

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/workload"
)

// admissionNotes say what a policy of admission does to capacity and latency.
// vLLM preempts by recomputation: the cache of a request is dropped and its
// positions are processed again (https://docs.vllm.ai/en/stable/configuration/optimization.html#preemption).
func admissionNotes(w workload.Workload) []account.Warning {
	s := w.Serving
	if s == nil || w.Operation != workload.Generation {
		return nil
	}
	bound := "what the inputs declare"
	switch {
	case s.MaxRequests > 0 && s.MaxLength > 0:
		bound = fmt.Sprintf("%s requests of %s positions", bytesize.Group(s.MaxRequests), bytesize.Group(s.MaxLength))
	case s.MaxRequests > 0:
		bound = bytesize.Group(s.MaxRequests) + " requests"
	case s.MaxLength > 0:
		bound = bytesize.Group(s.MaxLength) + " positions of a request"
	}
	var notes []account.Warning
	switch s.Policy {
	case workload.Preempt:
		notes = append(notes, account.Warning{Code: "admission_preempts", Text: "the policy preempts: beyond " + bound +
			" capacity is no guarantee, and a request that is preempted pays in latency, for its positions are processed again"})
	case workload.Queue:
		notes = append(notes, account.Warning{Code: "admission_queues", Text: "the policy queues: beyond " + bound + " requests wait, which their latency shows and memory does not"})
	case workload.Refuse:
		notes = append(notes, account.Warning{Code: "admission_refuses", Text: "the policy refuses: beyond " + bound + " requests are turned away"})
	}
	for _, in := range w.Inputs {
		n, more := in.Dimensions[workload.Sequences], s.MaxRequests > 0
		if more && in.Name != workload.AdmissionInput && n > s.MaxRequests {
			notes = append(notes, account.Warning{Code: "inputs_beyond_admission", Text: fmt.Sprintf(
				"the input %s has %s sequences together, and no more than %s requests are admitted: the larger number is counted", in.Name, bytesize.Group(n), bytesize.Group(s.MaxRequests))})
		}
	}
	return notes
}
