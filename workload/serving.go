package workload

// servingYAML is the settings of an engine that fills a share of its card.
type servingYAML struct {
	Utilization    float64 `yaml:"utilization"`
	MaxLength      whole   `yaml:"max_length"`
	MaxRequests    whole   `yaml:"max_requests"`
	BatchedTokens  whole   `yaml:"batched_tokens"`
	Block          whole   `yaml:"block"`
	CacheBytes     string  `yaml:"cache_bytes"`
	Eager          bool    `yaml:"eager"`
	InProcess      bool    `yaml:"in_process"`
	OneKind        bool    `yaml:"one_kind"`
	PrefixCaching  *bool   `yaml:"prefix_caching"`
	DecodeContext  whole   `yaml:"decode_context"`
	Speculative    whole   `yaml:"speculative_tokens"`
	AdapterSlots   whole   `yaml:"adapter_slots"`
	AdapterRank    whole   `yaml:"adapter_rank"`
	PromptLogprobs bool    `yaml:"prompt_logprobs"`
	Images         *whole  `yaml:"images"`
}

// onto puts the settings of a file into a workload.
func (s *servingYAML) onto(c *checker, w *Workload) {
	if s == nil {
		return
	}
	if w.Serving == nil {
		w.Serving = &Serving{}
	}
	if s.Utilization < 0 || s.Utilization > 1 {
		c.wrong("serving.utilization", "is %g, expected a share above 0 and up to 1", s.Utilization)
	}
	for name, n := range map[string]whole{"max_length": s.MaxLength, "max_requests": s.MaxRequests, "batched_tokens": s.BatchedTokens, "block": s.Block,
		"decode_context": s.DecodeContext, "speculative_tokens": s.Speculative, "adapter_slots": s.AdapterSlots, "adapter_rank": s.AdapterRank} {
		if n < 0 {
			c.wrong("serving."+name, "is %d, expected a count", n)
		}
	}
	if s.MaxLength > 0 {
		w.Serving.MaxLength = int64(s.MaxLength)
	}
	if s.MaxRequests > 0 {
		w.Serving.MaxRequests = int64(s.MaxRequests)
	}
	b := &Budget{Utilization: s.Utilization, BatchedTokens: int64(s.BatchedTokens), Block: int64(s.Block), CacheBytes: c.bytes("serving.cache_bytes", s.CacheBytes),
		Eager: s.Eager, InProcess: s.InProcess, OneKind: s.OneKind, PrefixCaching: s.PrefixCaching, DecodeContext: int(min(s.DecodeContext, MaxDegree)),
		Speculative: int64(s.Speculative), AdapterSlots: int64(s.AdapterSlots), AdapterRank: int64(s.AdapterRank), PromptLogprobs: s.PromptLogprobs}
	if s.Images != nil {
		n := int64(*s.Images)
		b.MediaItems = &n
	}
	w.Serving.Budget = b
}
