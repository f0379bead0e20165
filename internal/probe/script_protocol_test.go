package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/internal/checklist"
)

// The order of everything that a phase does, and that it writes before it goes on.
const recording = `
import standin, torch, floodmark_probe
from floodmark_probe import phase

write = floodmark_probe.Stream.write
def written(stream, kind=None, **fields):
    write(stream, kind, **fields)
    if kind in ("begin", "end"):
        standin.say("write", kind, fields["name"])
floodmark_probe.Stream.write = written
MiB = 1 << 20
say, allocate, free = standin.say, standin.allocate, standin.free
`

func TestProtocolOrder(t *testing.T) {
	checklist.Covers(t, 66, 67, 74, 75, 76, 78, 84, 87, 88, 90)
	around := func(name string, inside ...string) []string {
		list := []string{"synchronize 0", "read 0", "reset 0", "write begin " + name}
		list = append(list, inside...)
		return append(list, "synchronize 0", "read 0", "write end "+name)
	}
	cases := []struct {
		name, devices, program string
		want                   []string
	}{
		{"one phase", "1", `
with phase("save"):
    say("run")`, around("save", "run")},
		{"a decorated function", "1", `
@phase("save")
def save(x):
    say("run")
save(1)`, around("save", "run")},
		{"a coroutine", "1", `
import asyncio
@phase("save")
async def save():
    say("run")
asyncio.run(save())`, around("save", "run")},
		{"one inside another", "1", `
with phase("evaluation"):
    say("before")
    with phase("forward"):
        say("run")
    say("after")`, around("evaluation", append(append([]string{"before"}, around("forward", "run")...), "after")...)},
		{"one that fails", "1", `
try:
    with phase("save"):
        raise OSError("disk")
except OSError:
    say("raised")`, append(around("save"), "raised")},
		{"two devices, each reset by itself", "2", `
with phase("save"):
    say("run")`, []string{"synchronize 0", "synchronize 1", "read 0", "reset 0", "read 1", "reset 1", "write begin save", "run",
			"synchronize 0", "synchronize 1", "read 0", "read 1", "write end save"}},
		{"a device without a context is left alone", "2", `
standin.contexts.discard(1)
with phase("save"):
    say("run")`, around("save", "run")},
		{"what a program trains is seen by itself", "1", `
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
loss = model(1)
loss.backward()
optimizer.step()`, append(append(around("forward", "run Module"), around("backward", "run backward")...),
			around("optimizer_step", "run step")...)},
		{"nothing is read in a capture, and one phase around it", "1", `
model, graph = torch.nn.Module(), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model(1)`, around("graph_capture", "write begin forward", "run Module", "write end forward")},
	}
	var snippets []snippet
	for _, c := range cases {
		snippets = append(snippets, snippet{recording + c.program + "\nsay('done')", []string{"STANDIN_DEVICES=" + c.devices}})
	}
	for _, python := range pythons(t) {
		for i, r := range each(t, python, snippets) {
			r.only(t).faultless(t)
			log := r.log[:max(0, slices.Index(r.log, "done"))] // what comes then is the reading at the exit
			if diff := cmp.Diff(cases[i].want, log); diff != "" {
				t.Errorf("%s: %s: want -, got +:\n%s%s", python, cases[i].name, diff, r.stderr)
			}
		}
	}
}

func TestReadings(t *testing.T) {
	checklist.Covers(t, 58, 59, 77, 79, 81, 86, 89, 91)
	// Each want is "phase: path = value", of its line "end".
	cases := []struct {
		name, program string
		want          []string
	}{
		{"six readings, and a start that was there before", `
allocate(10)
with phase("save", inputs="the whole model") as p:
    allocate(100); free(100); allocate(1); free(5)`, []string{
			"save: devices 0 start allocated_bytes = 10", "save: devices 0 peak allocated_bytes = 110",
			"save: devices 0 end allocated_bytes = 6", "save: devices 0 start reserved_bytes = 2097152",
			"save: devices 0 peak reserved_bytes = 2097152", "save: devices 0 end reserved_bytes = 2097152",
			"save: devices 0 peak_since = phase", "save: devices 0 windows = 1", "save: inputs given = the whole model",
			"save: devices 0 device_free_bytes = 64424509440", "save: devices 0 num_ooms = 0", "save: devices 0 reason = <nil>"}},
		{"a peak from before the phase is not its own", `
allocate(500); free(500)
with phase("save"):
    allocate(7)`, []string{"save: devices 0 peak allocated_bytes = 7", "save: devices 0 start allocated_bytes = 0"}},
		{"the outer phase keeps what came before, in and after the inner one", `
with phase("first"):
    allocate(100); free(100)
    with phase("inner"):
        allocate(10); free(10)
with phase("middle"):
    with phase("in"):
        allocate(200); free(200)
    with phase("in"):
        pass
with phase("last"):
    with phase("inner"):
        pass
    allocate(300); free(300)`, []string{
			"first: devices 0 peak allocated_bytes = 100", "first: devices 0 windows = 2", "middle: devices 0 peak allocated_bytes = 200",
			"middle: devices 0 windows = 3", "last: devices 0 peak allocated_bytes = 300", "last: parent = <nil>", "in: parent = 3"}},
		{"the program's own reset does not cost the phase its peak", `
with phase("save"):
    allocate(100); free(100)
    torch.cuda.reset_peak_memory_stats(0)
    allocate(1)
    print(torch.cuda.max_memory_allocated(0))`, []string{"save: devices 0 peak allocated_bytes = 100", "stdout = 1"}},
		{"our reset does not cost the program its own peak", `
torch.cuda.reset_peak_memory_stats()
allocate(50); free(50)
with phase("save"):
    allocate(10)
    print(torch.cuda.max_memory_allocated())`, []string{"save: devices 0 peak allocated_bytes = 10", "stdout = 50"}},
		{"a context that comes during the phase", `
standin.state.initialized = False
with phase("model_load"):
    standin.state.initialized = True
    allocate(9); free(9)`, []string{"model_load: devices 0 start = <nil>", "model_load: devices 0 peak allocated_bytes = 9",
			"model_load: devices 0 end allocated_bytes = 0", "model_load: devices 0 peak_since = process"}},
		{"no context at all", `
standin.state.initialized = False
with phase("inputs"):
    pass`, []string{"inputs: devices 0 = <nil>", "inputs: readings = none", "inputs: readings_reason = no_context"}},
		{"a device that cannot be waited for any more", `
try:
    with phase("save"):
        standin.state.broken = "an illegal memory access was encountered"
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
except RuntimeError as error:
    print(error)`, []string{"save: status = failed", "save: readings = none", "save: readings_reason = failed",
			"save: devices 0 start allocated_bytes = 0", "save: devices 0 end allocated_bytes = <nil>",
			"save: devices 0 peak reserved_bytes = <nil>", "save: error type = RuntimeError",
			"save: devices 0 reason = RuntimeError: an illegal memory access was encountered",
			"stdout = CUDA error: an illegal memory access was encountered"}},
		{"memory that runs out keeps its last readings", `
try:
    with phase("backward", {"batch": 64}):
        allocate(100)
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
except RuntimeError:
    pass`, []string{"backward: status = out_of_memory", "backward: devices 0 peak allocated_bytes = 100", "backward: inputs values batch = 64",
			"backward: error message = CUDA out of memory. Tried to allocate 2.00 GiB"}},
		{"names that hooks use too", `
@phase("generate")
def generate(x):
    return torch.Tensor()
generate(torch.Tensor())`, []string{"generate: status = ok", "generate: result reason = not_plain", "generate: result generated_tokens = <nil>"}},
		{"a phase that is interrupted", `
try:
    with phase("save"):
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass`, []string{"save: status = interrupted", "save: devices 0 end allocated_bytes = 0"}},
		{"what is known of inputs, and a real nought", `
with phase("forward", inputs={"x": torch.Tensor(), "n": [0, float("inf")], "name": "a"}):
    pass`, []string{"forward: inputs tensors 0 name = x", "forward: inputs tensors 0 shape 1 = 3", "forward: inputs tensors 0 dtype = float32",
			"forward: inputs values n.0 = 0", "forward: inputs values n.1 = <nil>", "forward: inputs values name = a",
			"forward: inputs sha256 = <nil>", "forward: inputs sha256_reason = not_plain"}},
		{"outputs live until the last reading", `
class Held:
    def __init__(self): allocate(40)
    def __del__(self): free(40)
@phase("forward")
def forward():
    return Held()
forward()
with phase("after"):
    pass`, []string{"forward: devices 0 end allocated_bytes = 40", "after: devices 0 start allocated_bytes = 0"}},
		{"phases of two threads", `
import threading
inside, leave = threading.Event(), threading.Event()
def other():
    with phase("other"):
        allocate(3); inside.set(); leave.wait()
t = threading.Thread(target=other); t.start(); inside.wait()
with phase("own"):
    allocate(5)
leave.set(); t.join()`, []string{"own: threads = true", "other: threads = true", "own: parent = <nil>",
			"other: devices 0 peak allocated_bytes = 8", "other: devices 0 windows = 2"}},
	}
	var snippets []snippet
	for _, c := range cases {
		snippets = append(snippets, snippet{program: recording + c.program})
	}
	for _, python := range pythons(t) {
		for i, r := range each(t, python, snippets) {
			t.Run(cases[i].name, func(t *testing.T) {
				if r.status != 0 {
					t.Fatalf("%s: status %d: %s", python, r.status, r.stderr)
				}
				checkEnds(t, r, cases[i].want)
			})
		}
	}
}

// checkEnds looks up "phase: path = value" in the last line "end" of that phase,
// and "stdout = text".
func checkEnds(t *testing.T, r *run, want []string) {
	t.Helper()
	ends := map[string]map[string]any{}
	for _, s := range r.streams {
		for _, line := range s.of("end") {
			ends[line["name"].(string)] = line
		}
	}
	for _, w := range want {
		left, value, _ := strings.Cut(w, " = ")
		name, path, found := strings.Cut(left, ": ")
		got := strings.TrimSpace(r.stdout)
		if found {
			end, ok := ends[name]
			if !ok {
				t.Errorf("no line of the end of %s", name)
				continue
			}
			got = show(get(end, keys(path)...))
		}
		if got != value {
			t.Errorf("%s = %s, want %s", left, got, value)
		}
	}
}

func keys(path string) (list []any) {
	for _, key := range strings.Fields(path) {
		var index int
		if n, _ := fmt.Sscanf(key, "%d", &index); n == 1 && !strings.Contains(key, ".") {
			list = append(list, index)
		} else {
			list = append(list, key)
		}
	}
	return list
}

func show(v any) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprint(v)
}

func TestAllocatorBackend(t *testing.T) {
	checklist.Covers(t, 71, 72)
	for _, c := range []struct{ backend, peak string }{{"native", "peak"}, {"cudaMallocAsync", "upper_bound"}} {
		r := (&run{python: pythons(t)[0], paths: fake(t), env: []string{"FAKE_BACKEND=" + c.backend, "PYTORCH_CUDA_ALLOC_CONF=backend:" + c.backend},
			args: []string{"-c", recording + "with phase('save'): pass"}}).start(t)
		device := r.only(t).of("device")
		if len(device) != 1 {
			t.Fatalf("%d lines of devices", len(device))
		}
		for path, want := range map[string]string{"allocator backend": c.backend, "allocator peak_reserved": c.peak,
			"allocator settings PYTORCH_CUDA_ALLOC_CONF": "backend:" + c.backend, "allocator settings PYTORCH_ALLOC_CONF": "<nil>",
			"name": "stand-in", "total_bytes": "85899345920", "capability": "9.0", "uuid": "<nil>"} {
			if got := show(get(device[0], keys(path)...)); got != want {
				t.Errorf("%s: %s is %s, want %s", c.backend, path, got, want)
			}
		}
	}
}

// What the forwards and steps of an unmodified program are called.
func TestNames(t *testing.T) {
	checklist.Covers(t, 52, 92, 93)
	cases := []struct{ name, program, want string }{
		{"a training step", "loss(model(1)).backward(); optimizer.step()", "forward loss backward optimizer_step"},
		{"modules inside modules are one forward, and a loss is seen", `
class Outer(torch.nn.Module):
    def forward(self): model(1); loss(1); return model(1)
Outer()()`, "forward(loss)"},
		{"recomputation in backward is backward", `
torch.during_backward.append(lambda: model(1))
model(1).backward()`, "forward backward"},
		{"a step with a closure", "optimizer.step(lambda: model(1).backward())", "optimizer_step(forward backward)"},
		{"a forward without gradients, after a step", "optimizer.step(); torch.gradients[0] = False; model(1)", "optimizer_step evaluation?"},
		{"and without any step", "torch.gradients[0] = False; model(1); model(1)", "forward forward"},
		{"a loop that generates by itself", `
torch.gradients[0] = False
model(1, use_cache=True)
model(1, past_key_values=Cache(8))
model(1, past_key_values=((1, 2),))`, "prefill? decode? decode?"},
		{"a cache that does not answer", `
class Odd:
    def get_seq_length(self): raise IndexError("layer 0")
torch.gradients[0] = False
model(1, past_key_values=Odd())`, ""},
		{"saving, and loading by itself", "torch.save(1, 'x'); torch.serialization.save(1, 'x')", "save save"},
		{"moving", "model.to('cuda:0'); model.cuda(); model.to(dtype)", "transfer transfer"},
		{"the program's own names, and hooked ones inside", `
with phase("my phase"):
    model(1)
with phase("forward"):
    model(1)`, "my phase(forward) forward"},
		{"a phase that never ends", "phase('save').__enter__(); model(1)", "save…(forward)"},
	}
	start := recording + `
model, loss, optimizer, dtype = torch.nn.Module(), torch.nn.modules.loss._Loss(), torch.optim.Optimizer(), object()
class Cache:
    def __init__(self, n): self.n = n
    def get_seq_length(self): return self.n
`
	var snippets []snippet
	for _, c := range cases {
		snippets = append(snippets, snippet{program: start + c.program})
	}
	for _, python := range pythons(t) {
		for i, r := range each(t, python, snippets) {
			t.Run(cases[i].name, func(t *testing.T) {
				s := r.only(t)
				if cases[i].name != "a cache that does not answer" {
					s.faultless(t)
				}
				if got := s.tree(); r.status != 0 || got != cases[i].want {
					t.Errorf("%s: %s, want %s; status %d %s", python, got, cases[i].want, r.status, r.stderr)
				}
			})
		}
	}
}

func TestStepNumbers(t *testing.T) {
	program := recording + `
model, first, second = torch.nn.Module(), torch.optim.Optimizer(), torch.optim.Optimizer()
for _ in range(2):
    model(1).backward()
    first.step(); second.step()`
	r := (&run{python: pythons(t)[0], paths: fake(t), args: []string{"-c", program}}).start(t)
	var got []string
	for _, end := range r.only(t).of("end") {
		got = append(got, show(end["name"])+" "+show(end["step"]))
	}
	want := []string{"forward 1", "backward 1", "optimizer_step 1", "optimizer_step 1",
		"forward 2", "backward 2", "optimizer_step 2", "optimizer_step 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("two optimizers share a step: %s", diff)
	}
}

// The lab says which of the two is missing, and measures nothing on a CPU.
func TestLabGuards(t *testing.T) {
	checklist.Covers(t, 106, 115)
	for _, c := range []struct {
		name, env, device, missing string
		interpreter                []string
		status                     int
	}{
		{"no PyTorch", "", "cuda:0", "pytorch", []string{"-I", "-S"}, 2},
		{"PyTorch that breaks", "BROKEN=1", "cuda:0", "pytorch", nil, 2},
		{"no GPU", "FAKE_CUDA=0", "cuda:0", "cuda", nil, 2},
		{"no such GPU", "", "cuda:7", "device", nil, 2},
		{"a CPU", "", "cpu", "device", nil, 2},
		{"misused", "", "", "", nil, 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(c.interpreter, absolute(t, "floodmark_probe.py"), "lab")
			if c.device != "" {
				args = append(args, "--device", c.device)
			}
			r := (&run{python: pythons(t)[0], plain: true, paths: fake(t), args: args, env: []string{c.env}}).start(t)
			if r.status != c.status {
				t.Errorf("status %d, want %d: %s", r.status, c.status, r.stderr)
			}
			if c.status != 2 {
				return
			}
			lines := r.only(t).of("impossible")
			if len(lines) != 1 || lines[0]["missing"] != c.missing || !strings.Contains(r.stderr, "impossible") {
				t.Errorf("%v, want %s; %s", lines, c.missing, r.stderr)
			}
			if strings.Contains(strings.Join(r.log, " "), "reset") {
				t.Errorf("something was measured: %v", r.log)
			}
		})
	}
}

// Used alone, the lab writes a new file that is named, and none where it cannot measure.
func TestLabOutput(t *testing.T) {
	checklist.Covers(t, 114, 117)
	there := filepath.Join(t.TempDir(), "there.jsonl")
	if err := os.WriteFile(there, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "new.jsonl")
	for _, c := range []struct {
		output string
		status int
		says   string
	}{{there, 1, "no result is overwritten"}, {missing, 2, "finds no GPU"}} {
		r := (&run{python: pythons(t)[0], plain: true, paths: fake(t), env: []string{"FAKE_CUDA=0"},
			args: []string{absolute(t, "floodmark_probe.py"), "lab", "--device", "cuda:0", "--output", c.output}}).start(t)
		if r.status != c.status || !strings.Contains(r.stderr, c.says) || len(r.streams) != 0 {
			t.Errorf("status %d, %d streams, %s; want %d and %q", r.status, len(r.streams), r.stderr, c.status, c.says)
		}
	}
	if data, err := os.ReadFile(there); err != nil || string(data) != "kept" {
		t.Errorf("the file that was there holds %q, %v", data, err)
	}
	if _, err := os.Lstat(missing); !os.IsNotExist(err) {
		t.Errorf("a file was left where nothing could be measured: %v", err)
	}
}

func TestSnapshotWhenMemoryRunsOut(t *testing.T) {
	folder := t.TempDir()
	program := recording + `
for _ in range(2):
    try:
        with phase("forward"):
            raise RuntimeError("CUDA out of memory")
    except RuntimeError:
        pass`
	r := (&run{python: pythons(t)[0], paths: fake(t), args: []string{"-c", program}, env: []string{EnvSnapshot + "=" + folder}}).start(t)
	lines := r.only(t).of("snapshot")
	if len(lines) != 1 {
		t.Fatalf("%d lines, want one: %s", len(lines), r.stderr)
	}
	info, err := os.Stat(show(lines[0]["path"]))
	if err != nil || show(lines[0]["bytes"]) != show(float64(info.Size())) || filepath.Dir(show(lines[0]["path"])) != folder {
		t.Errorf("%v: %v", lines[0], err)
	}
	if !slices.Contains(r.log, "record 100000") {
		t.Errorf("no history was recorded: %v", r.log)
	}
}
