package enginelog

import (
	"fmt"
	"strings"
	"testing"

	"floodmark/account"
)

const (
	// A request that fits into free and cached together, as three ages of PyTorch
	// print it.
	plausible = "CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of 79.25 GiB of which 514.00 MiB is free. " +
		"Including non-PyTorch memory, this process has 78.75 GiB memory in use. " +
		"Of the allocated memory 77.96 GiB is allocated by PyTorch, and 137.00 MiB is reserved by PyTorch but unallocated."
	plausibleTo20 = "CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 15.78 GiB total capacity; 13.23 GiB already allocated; 210.75 MiB free; " +
		"14.28 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
	plausibleTo13 = "CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 15.78 GiB total capacity; 13.23 GiB already allocated; 210.75 MiB free; 1.05 GiB cached)"
)

// step finds a piece of advice; the effect is empty when it is not given.
func step(m OutOfMemory, code string) Advice {
	for _, a := range m.Advice {
		if a.Code == code {
			return a
		}
	}
	return Advice{}
}

// What another process holds comes first where it could close the gap.
func TestOthersFirst(t *testing.T) {
	small := strings.Replace(modern, "14.26 GiB", "100.00 MiB", 1)
	small = strings.Replace(small, "16.63 GiB", "30.80 GiB", 1)
	small = strings.Replace(small, "15.90 GiB", "30.10 GiB", 1)
	for _, c := range []struct {
		name, text string
		first      string // code of the first step
		effect     Effect // of free_other_processes or find_owners
		says       string
	}{
		{"another process holds half the card", modern, "free_other_processes", Helps, "ending process 19239, or using another card: 14.26 GiB of this card"},
		{"another process holds too little", small, "hold_less", DoesNotHelp, "ending process 19239 alone: its 100.00 MiB"},
		{"two of them", strings.Replace(modern, "Process 19239 has 14.26 GiB", "Process 7 has 4.26 GiB memory in use. Process 8 has 10.00 GiB", 1),
			"free_other_processes", Helps, "process 7 (4.26 GiB) and process 8 (10.00 GiB)"},
		{"nobody is named, and most is held elsewhere (horovod#2719)",
			"CUDA out of memory. Tried to allocate 14.00 MiB (GPU 0; 15.78 GiB total capacity; 2.68 GiB already allocated; 5.75 MiB free; 2.70 GiB reserved in total by PyTorch)",
			"find_owners", MayHelp, "13.06 to 13.09 GiB of this card"},
		{"nobody else", plausible, "expandable_segments", "", ""},
	} {
		m := one(t, c.text)
		a := step(m, "free_other_processes")
		if a.Code == "" {
			a = step(m, "find_owners")
		}
		if a.Effect != c.effect || !strings.Contains(a.Text, c.says) {
			t.Errorf("%s: %+v; want %s, saying %q", c.name, a, c.effect, c.says)
		}
		if m.Advice[0].Code != c.first {
			t.Errorf("%s: the first step is %+v", c.name, m.Advice[0])
		}
	}
}

// The sentence says what the card was full of, from live tensors outwards.
func TestHoldings(t *testing.T) {
	for text, want := range map[string][]string{
		modern: {"Live tensors fill 15.85 to 15.87 GiB of the card's 31.36 GiB", "46.00 MiB free in private pools", "120.50 MiB cached unused",
			"616 to 638 MiB of this process outside PyTorch's allocator", "14.26 GiB of process 19239", "471.69 MiB free"},
		plausible: {"fragmentation is plausible, not proven", "Live tensors fill 77.96 GiB of the card's 79.25 GiB"},
		// Without the sentences about processes nobody says whose the rest is.
		strings.Replace(plausible, "Including non-PyTorch memory, this process has 78.75 GiB memory in use. ", "", 1): {"outside this allocator (of this process or of others)"},
	} {
		m := one(t, text)
		for _, says := range want {
			if !strings.Contains(m.Because, says) {
				t.Errorf("%.60s: %q does not say %q", text, m.Because, says)
			}
		}
	}
}

// A limit of the process caps what is free to it, and the sentence says how.
func TestCapped(t *testing.T) {
	m := one(t, "CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total capacity of 47.37 GiB of which 35.57 GiB is free. Including non-PyTorch memory, this process has 11.80 GiB memory in use. "+
		"11.82 GiB allowed; Of the allocated memory 10.90 GiB is allocated by PyTorch, and 612.00 MiB is reserved by PyTorch but unallocated.")
	if want := "(the process may reserve 11.82 GiB and has reserved 11.49 to 11.51 GiB, though the device had 35.57 GiB free)"; !strings.Contains(m.Because, want) {
		t.Errorf("%s", m.Because)
	}
	if a := step(m, "memory_fraction"); a.Effect != MayHelp {
		t.Errorf("%+v", m.Advice)
	}
}

// A setting is offered where the PyTorch that printed the message has it, with
// the whole variable.
func TestSettingsByAge(t *testing.T) {
	hip := strings.NewReplacer("CUDA", "HIP").Replace(plausible)
	for _, c := range []struct {
		name, text, code string
		effect           Effect
		says             string
	}{
		{"1.3 and before", plausibleTo13, "newer_pytorch", MayHelp, "no setting"},
		{"1.4 to 2.0", plausibleTo20, "max_split_size_mb", MayHelp, "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:N"},
		{"2.1 and later", plausible, "expandable_segments", MayHelp, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
		{"the new name", plausible + " try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.", "expandable_segments", MayHelp, "PYTORCH_ALLOC_CONF=expandable_segments:True"},
		{"HIP", hip, "expandable_segments", MayHelp, "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True"},
		{"HIP, with a caveat", hip, "expandable_segments", MayHelp, "does not support it"},
		{"XPU has none", strings.ReplaceAll(plausible, "CUDA", "XPU"), "expandable_segments", "", ""},
		{"NPU judges the printed hint", strings.Replace(plausibleTo20, "CUDA", "NPU", 1), "printed_hint", MayHelp, "max_split_size_mb"},
		{"2.1's hint", plausible + " try setting max_split_size_mb to avoid fragmentation.", "printed_hint", MayHelp, "max_split_size_mb"},
	} {
		m := one(t, c.text)
		a := step(m, c.code)
		if m.Class != FragmentationPlausible || a.Effect != c.effect || !strings.Contains(a.Text, c.says) {
			t.Errorf("%s: %s, %v; want %s %s, saying %q", c.name, m.Class, m.Advice, c.effect, c.code, c.says)
		}
	}
	for _, a := range one(t, plausibleTo20).Advice {
		if strings.Contains(a.Text, "expandable_segments:True") {
			t.Errorf("PyTorch 2.0 has no expandable segments: %s", a.Text)
		}
	}
}

// What is on already is not advised, also where the numbers leave the class open.
func TestHintThatIsOn(t *testing.T) {
	m := one(t, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py\n"+
		"CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 7.75 GiB of which 1.17 GiB is free. Of the allocated memory 4.81 GiB is allocated by PyTorch, and 18.97 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.")
	if a := step(m, "printed_hint"); m.Class != CannotTell || a.Effect != DoesNotHelp || !strings.Contains(a.Text, "already on") {
		t.Errorf("%s: %v", m.Class, m.Advice)
	}
}

// The allocator of cudaMallocAsync compares what is allocated with what is allowed.
func TestAsyncAllocator(t *testing.T) {
	const text = "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : %s\nRequested               : 4.83 GiB\nDevice limit            : 22.20 GiB\nFree (according to CUDA): %s\nPyTorch limit (set by user-supplied memory fraction)\n                        : %s"
	for _, c := range []struct {
		allocated, free, allowed string
		class                    Class
		says                     string
	}{
		{"16.08 GiB", "11.12 MiB", "22.20 GiB", CannotTell, "does not tell apart"},
		{"9.00 GiB", "12.00 GiB", "11.10 GiB", Exhaustion, "may allocate 11.10 GiB"},
		{"20.00 GiB", "1.00 GiB", "22.20 GiB", Exhaustion, "more than the 22.20 GiB"},
	} {
		m := one(t, fmt.Sprintf(text, c.allocated, c.free, c.allowed))
		fraction := step(m, "memory_fraction").Effect == MayHelp
		if limited := c.allowed != "22.20 GiB"; m.Class != c.class || !strings.Contains(m.Because, c.says) || fraction != limited {
			t.Errorf("%s allocated: %s, %q, %v", c.allocated, m.Class, m.Because, m.Advice)
		}
	}
}

// A retelling belongs to the failure it retells also where a paste turned them round.
func TestRetoldFirst(t *testing.T) {
	m := one(t, "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n\ntorch.OutOfMemoryError: CUDA out of memory.\nTried to allocate 252.00 MiB. GPU 0 has a total capacity of 10.57 GiB of which 163.12 MiB is free.")
	if m.Phase != account.PhaseSamplerWarmup || !m.Request.Known() || len(m.Remedies) != 2 {
		t.Errorf("%+v", m)
	}
}

// A text reads on after its effect: it does not say the effect again, and no
// name of a class leaks into a sentence.
func TestWording(t *testing.T) {
	for _, text := range []string{modern, plausible, plausibleTo20, plausibleTo13, "CUDA error: out of memory",
		"CUDA out of memory. Tried to allocate more than 1EB memory.",
		"CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; 13.98 GiB already allocated; 0 bytes free; 14.10 GiB reserved in total by PyTorch) try setting max_split_size_mb to avoid fragmentation.",
		"CUDA out of memory. Tried to allocate 960.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 15.52 GiB is free. Of the allocated memory 14.20 GiB is allocated by PyTorch, and 76.00 MiB is reserved by PyTorch but unallocated.",
		"CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 31.36 GiB of which 1.00 GiB is free. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.",
	} {
		m := one(t, text)
		said := []string{m.Because}
		for _, a := range m.Advice {
			for _, label := range []string{"helps", "may help", "does not help", "would tell"} {
				if strings.Contains(a.Text, label) {
					t.Errorf("%s: %q says its effect again", a.Effect, a.Text)
				}
			}
			if a.Effect == Helps && strings.Contains(a.Text, "does not give") {
				t.Errorf("%q is no help", a.Text)
			}
			said = append(said, a.Text)
		}
		for _, sentence := range said {
			for _, c := range []Class{AbsurdSize, LimitOutsideAllocator, FragmentationPlausible, CannotTell} {
				if strings.Contains(sentence, string(c)) {
					t.Errorf("%q leaks %s", sentence, c)
				}
			}
		}
	}
}

// Numbers are no finer than what is known of them, and are rounded outwards.
func TestShow(t *testing.T) {
	for _, c := range []struct {
		low, high int64
		want      string
	}{
		{730144440, 773094112, "690 to 740 MiB"}, // 696.32 to 737.28 MiB, the difference of two numbers in hundredths of a GiB
		{3185*gib/100 + 1, 3187 * gib / 100, "31.85 to 31.87 GiB"},
		{514615 * mib / 1000, 514625 * mib / 1000, "514.62 MiB"}, // one printed number
		{0, 23685 * gib / 1000, "0 to 24 GiB"},
		{0, 0, "0 B"},
		{0, 900, "0 to 900 B"},
		{20971520, 20971520, "20.00 MiB"},
		{gib, 5 * gib, "1 to 5 GiB"},
	} {
		if got := show(account.Between(c.low, c.high, account.Provenance{})); got != c.want {
			t.Errorf("%d to %d is %q, want %q", c.low, c.high, got, c.want)
		}
	}
}

// Each number keeps the text that it was printed in; where MPS says GB for GiB,
// a warning says so.
func TestPrintedText(t *testing.T) {
	log := read(t, "CUDA out of memory. Tried to allocate 381.50 MiB (GPU 1; 7.92 GiB total capacity; 7.16 GiB already allocated; 0 bytes free; 452.50 KiB cached)")
	for kind, want := range map[Kind]string{KindRequest: "381.50 MiB", KindUnallocated: "452.50 KiB"} {
		if found := log.Find("pytorch", 1, kind); len(found) != 1 || found[0].Printed != want {
			t.Errorf("%s: %+v, want %s", kind, found, want)
		}
	}
	if found := log.Find("device", 1, KindFree); len(found) != 1 || found[0].Printed != "0 bytes" || len(log.Warnings) > 0 {
		t.Errorf("%+v, %v", found, log.Warnings)
	}
	mps := read(t, "MPS backend out of memory (MPS allocated: 17.43 GB, other allocations: 480.00 MB, max allowed: 18.13 GB). Tried to allocate 300.00 MB on private pool.")
	if len(mps.Warnings) != 1 || mps.Warnings[0].Code != "binary_units" {
		t.Errorf("%v", mps.Warnings)
	}
}

// Numbers that cannot all be true settle nothing, and the account does not go
// on with them.
func TestContradictions(t *testing.T) {
	for _, c := range []struct{ name, old, new, says string }{
		{"more free than there is", "471.69 MiB is free", "99.00 GiB is free", "99.00 GiB free of a card that has 31.36 GiB"},
		{"more in pools than is allocated", "with 46.00 MiB", "with 46.00 GiB", "46.00 GiB free in private pools of 15.90 GiB that are counted as allocated"},
	} {
		log := read(t, strings.Replace(modern, c.old, c.new, 1))
		m := log.OutOfMemory[0]
		if m.Class != CannotTell || len(m.Possible) > 0 || !strings.Contains(m.Because, c.says) || m.Levels().Device.Known() {
			t.Errorf("%s: %s, %s", c.name, m.Class, m.Because)
		}
		if len(log.Warnings) != 1 || log.Warnings[0].Code != "contradiction" || !strings.Contains(log.Warnings[0].Text, c.says) {
			t.Errorf("%s: warnings %v", c.name, log.Warnings)
		}
	}
	older := one(t, strings.Replace(plausibleTo20, "13.23 GiB already", "15.23 GiB already", 1))
	if older.Class != CannotTell || !strings.Contains(older.Because, "15.23 GiB allocated of 14.28 GiB that are reserved") {
		t.Errorf("%s, %s", older.Class, older.Because)
	}
	// A driver that moves bytes to main memory can hold more than the card.
	if m := one(t, "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; 13.98 GiB already allocated; 0 bytes free; 14.10 GiB reserved in total by PyTorch)"); m.Class != Spill {
		t.Errorf("%s, %s", m.Class, m.Because)
	}
}
