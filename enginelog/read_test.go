package enginelog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"floodmark/account"
	"floodmark/internal/source"
)

const modern = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 31.36 GiB of which 471.69 MiB is free. " +
	"Including non-PyTorch memory, this process has 16.63 GiB memory in use. Process 19239 has 14.26 GiB memory in use. " +
	"Of the allocated memory 15.90 GiB is allocated by PyTorch, with 46.00 MiB allocated in private pools (e.g., CUDA Graphs), and 120.50 MiB is reserved by PyTorch but unallocated. " +
	"If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  " +
	"See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"

// wrap breaks a text after every width characters, as a terminal does.
func wrap(text string, width int) string {
	var b strings.Builder
	for len(text) > width {
		b.WriteString(text[:width] + "\n")
		text = text[width:]
	}
	return b.String() + text
}

// However a message is dressed, its numbers are the same.
func TestDress(t *testing.T) {
	bare := one(t, modern)
	wide := utf16.Encode([]rune(modern + "\r\n"))
	var powershell bytes.Buffer
	for _, u := range wide {
		powershell.Write([]byte{byte(u), byte(u >> 8)})
	}
	traceback := "Traceback (most recent call last):\n" + strings.Repeat("  File \"train.py\", line 7, in step\n    loss.backward()\n", 400)
	dresses := map[string]string{
		"in a traceback":   traceback + modern + "\n" + traceback,
		"coloured":         "\x1b[31m" + strings.ReplaceAll(modern, "GiB", "\x1b[1;33mGiB\x1b[0m"),
		"boxed":            "│ " + strings.ReplaceAll(wrap(modern, 71), "\n", " │\n│ ") + " │",
		"in a long line":   `{"log":"` + strings.Repeat("x", 3*piece-500) + modern + `"}`,
		"in escaped lines": `{"text": "Traceback\n` + strings.ReplaceAll(modern, ". ", `.\n`) + `\n"}`,
		"in UTF-16":        "\xff\xfe" + powershell.String(),
		"with other sentences first": strings.Replace(modern,
			"Including non-PyTorch memory, this process has 16.63 GiB memory in use. Process 19239 has 14.26 GiB memory in use.",
			"Process 19239 has 14.26 GiB memory in use. Including non-PyTorch memory, this process has 16.63 GiB memory in use.", 1),
	}
	for _, width := range []int{40, 71, 80, 132, 200} {
		dresses[fmt.Sprintf("wrapped at %d", width)] = wrap(modern, width)
		dresses[fmt.Sprintf("[rank4], wrapped at %d", width)] = wrap("[rank4]: "+modern, width)
	}
	for _, prefix := range []string{
		"[rank4]: ", "[rank4]:[E1129 07:57:26.7 CUDACachingAllocator.cpp:508] ", "2025-11-12T11:25:13.4961658Z ", "[default4]:",
		"(EngineCore_DP0 pid=518) ERROR 07-29 21:48:54 [core.py:1141] ", "4: ", "[1,4]<stderr>:", "[2025-11-12 11:25:13,496] ",
	} {
		dresses["prefixed "+prefix] = prefix + strings.ReplaceAll(wrap(modern, 100), "\n", "\n"+prefix)
	}
	for name, text := range dresses {
		m := one(t, text)
		for _, pair := range [][2]account.Figure{
			{m.Request, bare.Request}, {m.Capacity, bare.Capacity}, {m.Free, bare.Free}, {m.Allocated, bare.Allocated},
			{m.Reserved, bare.Reserved}, {m.PrivatePools, bare.PrivatePools}, {m.process(), bare.process()},
		} {
			got, want := pair[0].As(account.Provenance{}), pair[1].As(account.Provenance{})
			if got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		if len(m.Processes) != 2 || m.Class != Exhaustion || m.Hint != HintExpandable {
			t.Errorf("%s: %d processes, %s, hint %q", name, len(m.Processes), m.Class, m.Hint)
		}
		if strings.Contains(name, "rank4") && m.Rank != 4 {
			t.Errorf("%s: rank %d", name, m.Rank)
		}
	}
	if m := one(t, dresses["prefixed (EngineCore_DP0 pid=518) ERROR 07-29 21:48:54 [core.py:1141] "]); m.PID != 518 {
		t.Errorf("process %d, want 518", m.PID)
	}
}

// Two ranks write at the same time, each wrapped by the launcher.
func TestRanksInterleaved(t *testing.T) {
	zero := strings.Split(wrap(modern, 90), "\n")
	five := strings.Split(wrap(strings.ReplaceAll(modern, "2.00 GiB", "6.00 GiB"), 90), "\n")
	var b strings.Builder
	for i := range zero {
		fmt.Fprintf(&b, "[rank0]: %s\n[rank5]: %s\n", zero[i], five[i])
	}
	log := read(t, b.String())
	if len(log.OutOfMemory) != 2 || log.OutOfMemory[0].Rank != 0 || log.OutOfMemory[1].Rank != 5 {
		t.Fatalf("%d failures: %+v", len(log.OutOfMemory), log.OutOfMemory)
	}
	if got := log.OutOfMemory[1].Request.Low(); got < 5*gib {
		t.Errorf("rank 5 asked for %d bytes: the lines were mixed", got)
	}
	if log.NotUnderstood > 0 {
		t.Errorf("%d of %d lines were not understood", log.NotUnderstood, log.Lines)
	}
}

// Launchers and tracebacks print a message again; two ranks that fail alike
// are two failures.
func TestRepeats(t *testing.T) {
	log := read(t, modern+"\nDuring handling of the above exception:\n"+modern+"\n[rank3]: "+modern+"\n")
	if len(log.OutOfMemory) != 1 || log.OutOfMemory[0].Repeats != 2 || log.OutOfMemory[0].Rank != 3 {
		t.Errorf("%d failures, the first repeated %d times, rank %d", len(log.OutOfMemory), log.OutOfMemory[0].Repeats, log.OutOfMemory[0].Rank)
	}
	log = read(t, "[rank0]: CUDA error: out of memory\n[rank1]: CUDA error: out of memory\n")
	if len(log.OutOfMemory) != 2 {
		t.Errorf("%d failures of two ranks", len(log.OutOfMemory))
	}
	log = read(t, "(Worker_TP0 pid=11) CUDA error: out of memory\n(Worker_TP1 pid=12) CUDA error: out of memory\n")
	if len(log.OutOfMemory) != 2 {
		t.Errorf("%d failures of two processes", len(log.OutOfMemory))
	}
	log = read(t, "(Worker_TP0 pid=11) "+modern+"\n(EngineCore_DP0 pid=10) "+modern+"\n")
	if len(log.OutOfMemory) != 1 || log.OutOfMemory[0].PID != 11 {
		t.Errorf("%d failures of a process that another reports", len(log.OutOfMemory))
	}
	// vLLM says once more what happened, without the numbers.
	log = read(t, modern+"\nRuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.\n")
	if len(log.OutOfMemory) != 1 || log.OutOfMemory[0].Repeats != 1 {
		t.Errorf("%d failures, the first repeated %d times", len(log.OutOfMemory), log.OutOfMemory[0].Repeats)
	}
}

// A library's failure ends where the next message begins.
func TestMessagesOnOneLine(t *testing.T) {
	log := read(t, "NCCL WARN Failed to CUDA calloc 536870912 bytes; CUDA error: out of memory; Tried to allocate more than 1EB memory; "+modern)
	var classes []Class
	for _, m := range log.OutOfMemory {
		classes = append(classes, m.Class)
	}
	want := []Class{CannotTell, CannotTell, AbsurdSize, Exhaustion}
	slices.Sort(classes)
	slices.Sort(want)
	if !slices.Equal(classes, want) {
		t.Errorf("%v", classes)
	}
}

// Components are keyed by component, device and kind: two processes on one
// device do not overwrite one another.
func TestComponents(t *testing.T) {
	log := read(t, "step 1\nstep 2\n"+strings.Replace(modern, "Process 19239", "Process 7 has 1.25 GiB memory in use. Process 19239", 1)+"\n")
	for _, c := range []struct {
		component string
		kind      Kind
		middle    int64
	}{
		{"pytorch", KindRequest, 2 * gib},
		{"device", KindFree, 47169 * mib / 100},
		{"this process", KindInUse, 1663 * gib / 100},
		{"process 7", KindInUse, 125 * gib / 100},
		{"process 19239", KindInUse, 1426 * gib / 100},
		{"pytorch", KindPrivatePools, 46 * mib},
	} {
		found := log.Find(c.component, 0, c.kind)
		if len(found) != 1 {
			t.Errorf("%s %s: %d readings", c.component, c.kind, len(found))
			continue
		}
		high, _ := found[0].Bytes.High()
		if found[0].Line != 3 || found[0].Bytes.Low() > c.middle || high < c.middle || found[0].Bytes.Source != "log.txt:3" {
			t.Errorf("%s %s: %+v", c.component, c.kind, found[0])
		}
	}
	if log.Lines != 3 || log.NotUnderstood != 2 {
		t.Errorf("%d lines, %d not understood; want 3 and 2", log.Lines, log.NotUnderstood)
	}
}

func TestSettings(t *testing.T) {
	plausible := "CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of 79.25 GiB of which 514.00 MiB is free. " +
		"Of the allocated memory 76.40 GiB is allocated by PyTorch, and 737.00 MiB is reserved by PyTorch but unallocated. " +
		"If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
	for _, c := range []struct {
		name, before string
		on           bool
	}{
		{"nothing shown: the hint is no setting", "", false},
		{"shell", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128\n", true},
		{"python", "os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"expandable_segments:True\"\n", true},
		{"JSON", "{'PYTORCH_ALLOC_CONF': 'max_split_size_mb:64,expandable_segments:True'}\n", true},
		{"switched off later", "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True\nPYTORCH_HIP_ALLOC_CONF=expandable_segments:False\n", false},
		{"a comment", "# export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n", false},
		{"the allocator's own warning", "expandable_segments: memory mapping failed with OOM on device 0 while trying to map 20971520 bytes (free: 19070976, total: 101973491712)\n", true},
	} {
		for _, text := range []string{c.before + plausible, c.before + wrap(plausible, 60)} {
			log := read(t, text)
			m := log.OutOfMemory[len(log.OutOfMemory)-1]
			if log.expandable() != c.on || m.Class != FragmentationPlausible {
				t.Fatalf("%s: expandable segments on is %v, class %s", c.name, log.expandable(), m.Class)
			}
			effects := map[string]Effect{}
			for _, a := range m.Advice {
				effects[a.Code] = a.Effect
			}
			want := MayHelp
			if c.on {
				want = DoesNotHelp
			}
			// The hint of the message is that same step, and is not said twice.
			if _, twice := effects["printed_hint"]; effects["expandable_segments"] != want || twice {
				t.Errorf("%s: %v", c.name, m.Advice)
			}
		}
	}
}

// What is said about each class, by code and effect.
func TestAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; 13.98 GiB already allocated; 0 bytes free; 14.10 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.": "helps hold_less, may_help system_memory_fallback, does_not_help allocator_settings, does_not_help printed_hint",
		"CUDA out of memory. Tried to allocate more than 1EB memory.": "helps check_shape, does_not_help larger_card, does_not_help allocator_settings",
		"PYTORCH_ALLOC_CONF=expandable_segments:True\nCUDA out of memory. Tried to allocate 960.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 15.52 GiB is free. Of the allocated memory 14.20 GiB is allocated by PyTorch, and 76.00 MiB is reserved by PyTorch but unallocated.": "helps check_limits, may_help expandable_segments_off, does_not_help allocator_settings",
		modern: "helps free_other_processes, helps hold_less, does_not_help allocator_settings, does_not_help empty_cache, does_not_help printed_hint",
		"CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 47.37 GiB of which 46.57 GiB is free. Including non-PyTorch memory, this process has 772.00 MiB memory in use. 800.55 MiB allowed; Of the allocated memory 245.48 MiB is allocated by PyTorch, and 16.52 MiB is reserved by PyTorch but unallocated.": "helps hold_less, may_help memory_fraction, does_not_help allocator_settings, does_not_help empty_cache",
		"CUDA error: out of memory": "more_information complete_message",
		// Whether anything is missing is within rounding.
		"MPS backend out of memory (MPS allocated: 18.02 GB, other allocations: 107.10 MB, max allowed: 18.13 GB). Tried to allocate 4.50 MB on private pool.": "may_help hold_less, more_information complete_message, does_not_help empty_cache",
		// Cut short: what was cached is missing, yet less held would do.
		"CUDA out of memory. Tried to allocate 4.70 GiB. GPU 0 has a total capacity of 23.68 GiB of which 4.24 GiB is free. Including non-PyTorch memor": "helps hold_less, more_information complete_message",
	} {
		var got []string
		for _, a := range one(t, text).Advice {
			got = append(got, string(a.Effect)+" "+a.Code)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%.60s: %s, want %s", text, strings.Join(got, ", "), want)
		}
	}
}

// The hint does not apply to a request that cannot fit (CADS#4).
func TestHintDoesNotApply(t *testing.T) {
	m := one(t, modern)
	last := m.Advice[len(m.Advice)-1]
	if last.Code != "printed_hint" || last.Effect != DoesNotHelp || !strings.Contains(last.Text, "against fragmentation, and this is exhaustion") {
		t.Errorf("%+v", last)
	}
}

func TestAccount(t *testing.T) {
	accounts := read(t, "[rank2]: "+modern).Accounts()
	if len(accounts) != 1 {
		t.Fatalf("%d accounts", len(accounts))
	}
	a := accounts[0]
	p := a.Phases[0]
	if a.Ranks[0] != 2 || a.Device != 0 || len(a.Phases) != 1 || p.ID != account.PhaseRecorded || !strings.HasPrefix(p.Failed, "CUDA out of memory. Tried to allocate 2.00 GiB.") {
		t.Errorf("account %+v", a)
	}
	for scope, want := range map[account.Scope]int64{
		account.Allocated: 1590*gib/100 - 46*mib, // the printed number counts free blocks of private pools
		account.Reserved:  1590*gib/100 + 12050*mib/100,
		account.Process:   1663 * gib / 100,
		account.Device:    3136*gib/100 - 47169*mib/100,
	} {
		f := p.Peak(scope).Figure
		high, known := f.High()
		if !known || f.Low() > want || high < want || high-f.Low() > 25*mib || f.Scope != scope || f.Origin != account.Observed {
			t.Errorf("%s is %d to %d, want about %d", scope, f.Low(), high, want)
		}
	}
	var sum []account.Figure
	for _, s := range p.AtPeak {
		sum = append(sum, s.Bytes)
	}
	rows, device := account.Sum(account.Provenance{}, sum...), p.Peak(account.Device).Figure
	if high, _ := rows.High(); len(sum) != 5 || rows.Low() > device.Low()+mib || high < device.Low() {
		t.Errorf("%d rows sum to %v, the device holds %v", len(sum), rows, device)
	}
}

// In a container PyTorch prints its own process under the host's number.
func TestOwnProcessUnderANumber(t *testing.T) {
	own := one(t, "CUDA out of memory. Tried to allocate 344.00 MiB. GPU 0 has a total capacity of 139.81 GiB of which 2.00 MiB is free. Process 3131906 has 139.80 GiB memory in use. Of the allocated memory 137.97 GiB is allocated by PyTorch, and 704.56 MiB is reserved by PyTorch but unallocated.")
	if !own.process().Known() {
		t.Error("139.80 of 139.81 GiB are one process, and PyTorch reserved 138.66 of them")
	}
	shared := one(t, "CUDA out of memory. Tried to allocate 344.00 MiB. GPU 0 has a total capacity of 139.81 GiB of which 2.00 MiB is free. Process 1 has 70.00 GiB memory in use. Process 2 has 69.79 GiB memory in use. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 704.56 MiB is reserved by PyTorch but unallocated.")
	if shared.process().Known() {
		t.Error("either process could be its own")
	}
}

func TestPrinted(t *testing.T) {
	for _, c := range []struct {
		text      string
		low, high int64
	}{
		{"14.62 MiB", 15324939, 15335424},    // 14.615 MiB is 15,324,938.24 bytes
		{"131.85 MiB", 138249503, 138259988}, // 131.845 and 131.855 MiB
		{"0 bytes", 0, 0},
		{"512 bytes", 512, 512},
		{"1024.00 MiB", 1024*mib - 5242, 1024 * mib}, // larger would be printed in GiB
		{"1.00 GiB", gib + 1, gib + 5368709},         // smaller would be printed in MiB
		{"2.00 KiB", 2043, 2053},
		{"18.13 GB", 19461570560, 19472307978},
	} {
		number, unit, _ := strings.Cut(c.text, " ")
		f := printed(number, unit, account.Provenance{})
		high, known := f.High()
		if !known || f.Low() != c.low || high != c.high {
			t.Errorf("%s is %d to %d, want %d to %d", c.text, f.Low(), high, c.low, c.high)
		}
	}
	for _, text := range []string{"99999999999999999999999 GiB", "17179869184.00 GiB", "1.5 bytes", "99999999999999999999 bytes"} {
		number, unit, _ := strings.Cut(text, " ")
		if f := printed(number, unit, account.Provenance{}); f.Known() {
			t.Errorf("%s is taken for %v", text, f)
		}
	}
}

// A flood of failures is cut, with a warning.
func TestBounds(t *testing.T) {
	var b strings.Builder
	for i := range 3 * most {
		fmt.Fprintf(&b, "CUDA out of memory. Tried to allocate %d.00 MiB (GPU 0; 8.00 GiB total capacity; 7.00 GiB already allocated; 0 bytes free; 7.50 GiB reserved in total by PyTorch)\n", i+1)
	}
	log := read(t, b.String())
	if len(log.OutOfMemory) != most || len(log.Warnings) != 1 || log.Warnings[0].Code != "more_messages" {
		t.Errorf("%d failures, warnings %v", len(log.OutOfMemory), log.Warnings)
	}
	if log.NotUnderstood != 0 {
		t.Errorf("%d lines not understood", log.NotUnderstood)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(modern))
	f.Add([]byte("[rank4]: " + wrap(modern, 60)))
	f.Add([]byte("Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g(x)\n    ^^^^\n" + modern + "\nRuntimeError: CUDA out of memory occurred when warming up sampler with 8 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`"))
	f.Add([]byte("\x1b[31mMPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 GiB, max allowed: 27.20 GiB). Tried to allocate 292.50 MiB on private pool."))
	f.Add([]byte("expandable_segments: memory mapping failed with OOM on device 0 while trying to map 20971520 bytes (free: 19070976, total: 101973491712)"))
	f.Add([]byte("CUDA out of memory. Tried to allocate 381.50 MiB (GPU 1; 7.92 GiB total capacity; 7.16 GiB already allocated; 231.00 MiB free; 452.50 KiB cached)"))
	f.Add([]byte("(Worker_TP1 pid=4) INFO Free memory on device cuda:1 (22.06/23.56 GiB) on startup is less than desired GPU memory utilization (0.95, 22.38 GiB)"))
	f.Add([]byte("model weights take 5.20GiB; the rest of the memory reserved for KV Cache is -1.05GiB.\n# GPU blocks: 5691"))
	f.Add([]byte("llama_kv_cache: CUDA1 KV buffer size = 379.23 MiB\nx_breakdown_print: | - CUDA0 (a) | 15841 = 15630 + (15302 = 14736 + 72 + 493) + 17592186029324 |"))
	f.Add([]byte("x_breakdown_print: | - CUDA0 (a) | 100 = -1 + (3 = 1 + 1 + -1) + -7 |"))
	f.Add([]byte("msg=offload memory.available=\"[11.5 GiB 0 B]\" memory.required.kv=\"2.0 GiB\""))
	f.Add([]byte("model weights take -0GB; non_torch_memory takes -1.25GiB; the rest of the memory reserved for KV Cache is -0GiB."))
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := Read(source.Bytes("x", data))
		if err != nil {
			return
		}
		for _, c := range log.Components {
			if high, known := c.Bytes.High(); known && (c.Bytes.Low() < 0 && !c.Kind.signed() || high < c.Bytes.Low()) || c.Line < 1 || c.Line > log.Lines {
				t.Errorf("%+v", c)
			}
		}
		if log.NotUnderstood < 0 || log.NotUnderstood > log.Lines {
			t.Errorf("%d of %d lines", log.NotUnderstood, log.Lines)
		}
		for i, a := range log.Accounts() {
			if a.Phases[0].Failed == "" || log.OutOfMemory[i].Because == "" || len(log.OutOfMemory[i].Advice) == 0 {
				t.Errorf("failure %d says nothing: %+v", i, log.OutOfMemory[i])
			}
		}
	})
}
