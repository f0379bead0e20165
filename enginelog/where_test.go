package enginelog

import (
	"strings"
	"testing"

	"floodmark/account"
)

// The line that failed is the last one of the user's own code, else of a
// package, else of PyTorch.
func TestWhere(t *testing.T) {
	const (
		own    = "  File \"/home/u/train.py\", line 88, in <module>\n    loss.backward()\n"
		nested = "  File \"C:\\work\\model.py\", line 7, in forward\n    return self.up(x)\n           ^^^^^^^^^^\n"
		pack   = "  File \"/opt/py/lib/python3.11/site-packages/vllm/sample.py\", line 334, in random_sample\n    q = torch.empty_like(probs)\n"
		torch  = "  File \"/opt/py/lib/python3.11/site-packages/torch/_tensor.py\", line 525, in backward\n    torch.autograd.backward(\n"
		frozen = "  File \"<frozen runpy>\", line 198, in _run_module_as_main\n"
		head   = "Traceback (most recent call last):\n"
	)
	for _, c := range []struct {
		name, text string
		want       Where
		other      int // lines that are not understood
	}{
		{"the user's code below a package", head + own + pack + torch + modern, Where{"/home/u/train.py", 88, "<module>", "loss.backward()"}, 0},
		{"the deeper of two", head + own + nested + torch + modern, Where{`C:\work\model.py`, 7, "forward", "return self.up(x)"}, 0},
		{"packages only", head + frozen + torch + pack + modern, Where{"/opt/py/lib/python3.11/site-packages/vllm/sample.py", 334, "random_sample", "q = torch.empty_like(probs)"}, 0},
		{"no source", head + "  File \"<stdin>\", line 1, in <module>\n" + modern, Where{"<stdin>", 1, "<module>", ""}, 0},
		{"another traceback before", head + own + "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n" + head + nested + modern,
			Where{`C:\work\model.py`, 7, "forward", "return self.up(x)"}, 1},
		{"equal frames", head + own + "  [Previous line repeated 3 more times]\n" + modern, Where{"/home/u/train.py", 88, "<module>", "loss.backward()"}, 0},
		{"far from it", head + own + strings.Repeat("step\n", reach+1) + modern, Where{}, reach + 1},
		{"none", modern, Where{}, 0},
		{"prefixed", "[rank4]: " + strings.ReplaceAll(head+own+modern, "\n", "\n[rank4]: "), Where{"/home/u/train.py", 88, "<module>", "loss.backward()"}, 0},
	} {
		log := read(t, c.text)
		if got := log.OutOfMemory[0].Where; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if log.NotUnderstood != c.other {
			t.Errorf("%s: %d lines not understood, want %d", c.name, log.NotUnderstood, c.other)
		}
	}
}

// Each rank's failure has its own line, whoever writes in between.
func TestWhereOfEachRank(t *testing.T) {
	log := read(t, `[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "a.py", line 1, in <module>
[rank1]:   File "b.py", line 2, in <module>
[rank0]:     first()
[rank1]:     second()
[rank1]: `+modern+`
[rank0]: `+strings.ReplaceAll(modern, "2.00 GiB", "6.00 GiB")+"\n")
	for i, want := range []Where{{"b.py", 2, "<module>", "second()"}, {"a.py", 1, "<module>", "first()"}} {
		if got := log.OutOfMemory[i].Where; got != want {
			t.Errorf("failure %d: %+v, want %+v", i, got, want)
		}
	}
}

// The figures are those of a start of vLLM 0.19 on one H100 (llm-d-planner
// accuracy sweep, Apache-2.0, gpt-oss-20b): graphs and cache are in place, and
// the sampler's warm-up does not fit.
func TestRetelling(t *testing.T) {
	const (
		told = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB. GPU 0 has a total capacity of 79.19 GiB of which 552.50 MiB is free. " +
			"Including non-PyTorch memory, this process has 78.64 GiB memory in use. Of the allocated memory 74.91 GiB is allocated by PyTorch, " +
			"with 626.00 MiB allocated in private pools (e.g., CUDA Graphs), and 1.78 GiB is reserved by PyTorch but unallocated."
		retold = "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. " +
			"Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
	)
	for name, text := range map[string]string{
		"one writer":        told + "\n" + retold + "\n",
		"prefixed":          "(EngineCore pid=248) ERROR 04-22 00:59:56 [v1/engine/core.py:1108] " + told + "\n(EngineCore pid=248) " + retold + "\n",
		"another writer":    "(Worker_TP0 pid=450) " + told + "\n(EngineCore pid=248) " + retold + "\n",
		"without backticks": told + "\n" + strings.ReplaceAll(retold, "`", "") + "\n",
		"twice":             told + "\n" + retold + "\n" + told + "\n" + retold + "\n",
	} {
		m := one(t, text)
		if m.Class != FragmentationPlausible || m.Phase != account.PhaseSamplerWarmup || m.Repeats < 1 {
			t.Errorf("%s: %s in phase %q, repeated %d times", name, m.Class, m.Phase, m.Repeats)
		}
		a := step(m, "engine_options")
		if a.Effect != Helps || !strings.Contains(a.Text, "max_num_seqs or gpu_memory_utilization") || !strings.Contains(a.Text, "0.79 GiB") || m.Advice[0] != a {
			t.Errorf("%s: %v", name, m.Advice)
		}
		if a := step(m, "expandable_segments"); !strings.Contains(a.Text, "sleep mode") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := read(t, told+"\n"+retold).Accounts(); a[0].Phases[0].ID != account.PhaseSamplerWarmup {
		t.Errorf("phase %s", a[0].Phases[0].ID)
	}
	alone := one(t, retold)
	if alone.Class != CannotTell || step(alone, "engine_options").Effect != Helps || step(alone, "complete_message").Effect != MoreInformation {
		t.Errorf("alone: %s, %v", alone.Class, alone.Advice)
	}
}
