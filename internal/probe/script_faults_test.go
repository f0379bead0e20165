package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/internal/checklist"
)

// killedChildren is how many children TestKilledAnywhere kills.
const killedChildren = 200

// A phase that was over when the process was killed is in its stream, every time.
func TestKilledAnywhere(t *testing.T) {
	checklist.Covers(t, 130)
	r := (&run{python: pythons(t)[0], paths: fake(t), args: []string{absolute(t, "testdata/programs/killed.py"), strconv.Itoa(killedChildren)},
		env: []string{"STANDIN_LOG="}}).start(t)
	if r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	streams := map[string]stream{}
	for _, s := range r.streams {
		streams[strings.Split(s.name, ".")[2]] = s
	}
	children, phases, torn := 0, 0, 0
	for line := range strings.Lines(r.stdout) {
		fields := strings.Fields(line)
		done, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		s := streams[fields[0]]
		children++
		torn += s.torn
		ended := len(s.of("end"))
		phases += ended
		// One more than was told can be written: the child was killed before it told.
		if ended < done || ended > done+1 {
			t.Errorf("child %d, killed after %s µs: %d phases were over, %d are in its stream", children, fields[2], done, ended)
		}
		if open := len(s.of("begin")) - ended; open < 0 || open > 2 {
			t.Errorf("child %d: %d phases are open", children, open)
		}
	}
	if children != killedChildren || phases < killedChildren {
		t.Errorf("%d children with %d phases, want %d", children, phases, killedChildren)
	}
	t.Logf("%d children killed, %d phases over and all recorded, %d torn last lines", children, phases, torn)
}

func TestRoughPrograms(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   string // the ends of each stream, in the order of their beginning; "!" without the line of the exit
		status int
	}{
		{"nothing", "forward save", 0},
		{"fork", "forward save | save !", 0},
		{"silent_fork", "forward save", 0},
		{"fork_inside", "evaluation forward save", 0},
		{"execute", "save ! | forward save", 0},
		{"chdir", "forward save", 0},
		{"close", "forward save", 0},
		{"take", "forward save", 0},
		{"binary", "forward save", 0},
		{"quit_at_once", "save !", 7},
		{"crash", "save", 1},
		{"thread", "forward save", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			r := (&run{python: pythons(t)[0], paths: fake(t), folder: folder,
				args: []string{absolute(t, "testdata/programs/rough.py"), c.name}}).start(t)
			if r.status != c.status {
				t.Errorf("status %d, want %d: %s", r.status, c.status, r.stderr)
			}
			if got := endsOf(r); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			for _, s := range r.streams {
				s.faultless(t)
			}
			if c.name == "take" {
				if data, err := os.ReadFile(filepath.Join(folder, "own.txt")); err != nil || len(data) != 0 {
					t.Errorf("the program's own file holds %q, %v", data, err)
				}
			}
			if c.name == "crash" {
				uncaught := r.only(t).of("uncaught")
				if len(uncaught) != 1 || uncaught[0]["status"] != "out_of_memory" || !strings.Contains(r.stderr, "RuntimeError: CUDA") {
					t.Errorf("%v; the program's own message: %s", uncaught, r.stderr)
				}
			}
		})
	}
}

// endsOf is the names of what ended, stream by stream in the order of their beginning.
func endsOf(r *run) string {
	var all []string
	for _, s := range r.streams {
		var names []string
		for _, end := range s.of("end") {
			names = append(names, end["name"].(string))
		}
		if len(s.of("exit")) == 0 {
			names = append(names, "!")
		}
		all = append(all, strings.Join(names, " "))
	}
	return strings.Join(all, " | ")
}

func TestFullDisk(t *testing.T) {
	r := (&run{python: pythons(t)[0], paths: fake(t), args: []string{absolute(t, "testdata/programs/rough.py"), "full"},
		env: []string{"STANDIN_LOG="}}).start(t)
	if r.status != 0 || strings.Count(r.stderr, "readings are lost") != 1 {
		t.Errorf("status %d, and the program is told %q", r.status, r.stderr)
	}
	s := r.only(t)
	if ends := len(s.of("end")); ends < 2 || s.torn == 0 {
		t.Errorf("%d ends and %d torn lines: want those from before the disk was full and from after it", ends, s.torn)
	}
	if last := s.lines[len(s.lines)-1]; last["type"] != "exit" {
		t.Errorf("the last line is %v", last)
	}
}

// What stood in PYTHONPATH as sitecustomize is still run, whatever it does, and an
// interpreter that reads none leaves no stream.
func TestChain(t *testing.T) {
	site := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(site, "sitecustomize.py"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := "import sys; sys.stdout.write(getattr(sys.modules.get('sitecustomize'), 'WORD', 'none'))"
	for _, c := range []struct {
		name, site, stdout, stderr string
		args                       []string
		streams                    int
	}{
		{"another sitecustomize", "WORD = 'theirs'", "theirs", "", []string{"-c", program}, 1},
		{"one that imports PyTorch", "import torch; WORD = torch.__version__", "0.0-fake", "", []string{"-c", program}, 1},
		{"one that fails", "WORD = 1/0", "none", "ZeroDivisionError", []string{"-v", "-c", program}, 1},
		{"-S reads none", "", "none", "", []string{"-S", "-c", program}, 0},
		{"-I reads no PYTHONPATH", "", "none", "", []string{"-I", "-c", program}, 0},
		{"-E reads no PYTHONPATH", "", "none", "", []string{"-E", "-c", program}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(c.site)
			r := (&run{python: pythons(t)[0], paths: append([]string{site}, fake(t)...), args: c.args}).start(t)
			// An interpreter can have a sitecustomize of its own, which -I and -E leave.
			if r.stdout != c.stdout && !strings.HasPrefix(c.name, "-") || !strings.Contains(r.stderr, c.stderr) || len(r.streams) != c.streams {
				t.Errorf("%q, %d streams, want %q and %d; %s", r.stdout, len(r.streams), c.stdout, c.streams, r.stderr)
			}
		})
	}
}

func TestRankVariables(t *testing.T) {
	for _, c := range []struct {
		env                      string
		rank, local, world, from string
	}{
		{"", "<nil>", "<nil>", "<nil>", "<nil>"},
		{"RANK=3 LOCAL_RANK=1 WORLD_SIZE=4 SLURM_PROCID=0", "3", "1", "4", "RANK"},
		{"SLURM_PROCID=5 SLURM_LOCALID=1 SLURM_NTASKS=8", "5", "1", "8", "SLURM_PROCID"},
		{"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_SIZE=16 SLURM_PROCID=0", "2", "2", "16", "OMPI_COMM_WORLD_RANK"},
		{"PMI_RANK=1 PMI_SIZE=2", "1", "<nil>", "2", "PMI_RANK"},
		{"LOCAL_RANK=1", "<nil>", "1", "<nil>", "<nil>"},
		{"RANK=one", "<nil>", "<nil>", "<nil>", "<nil>"},
	} {
		r := (&run{python: pythons(t)[0], args: []string{"-c", ""}, env: append(strings.Fields(c.env), EnvRun+"=abc")}).start(t)
		s := r.only(t)
		line := s.lines[0]
		got := []string{show(line["rank"]), show(line["local_rank"]), show(line["world_size"]), show(line["rank_from"])}
		if diff := cmp.Diff([]string{c.rank, c.local, c.world, c.from}, got); diff != "" {
			t.Errorf("%q: %s", c.env, diff)
		}
		if line["type"] != "process" || line["run"] != "abc" || line["phases"] != true || show(line["v"]) != "1" {
			t.Errorf("%q: %v", c.env, line)
		}
	}
}

// The verifying run reads at the exit only, and changes nothing before.
func TestVerifying(t *testing.T) {
	checklist.Covers(t, 82, 83)
	program := recording + `
model = torch.nn.Module()
with phase("save"):
    allocate(100); free(90)
    model(1)
say("same" if torch.nn.Module.__call__ is model.__class__.__call__ and not hasattr(model.__class__.__call__, "__wrapped__") else "hooked")`
	r := (&run{python: pythons(t)[0], paths: fake(t), args: []string{"-c", program}, env: []string{EnvPhases + "=0"}}).start(t)
	s := r.only(t)
	if diff := cmp.Diff([]string{"run Module", "same", "read 0"}, r.log); diff != "" {
		t.Error(diff)
	}
	if len(s.lines) != 2 || s.lines[0]["phases"] != false || s.lines[1]["type"] != "exit" {
		t.Fatalf("%v", s.lines)
	}
	if got := show(get(s.lines[1], "devices", 0, "peak", "allocated_bytes")); got != "100" {
		t.Errorf("a peak of %s at the exit, want 100", got)
	}
}

func TestGuard(t *testing.T) {
	train := recording + `
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
for step in range(3):
    with phase("inputs"):
        allocate(1000)
    model(1).backward()
    if step == 1:
        allocate(100000)
    optimizer.step()
print("done")`
	for _, c := range []struct {
		name, budget, total string
		status              int
		want                string // the ends, and what the guard names
	}{
		{"it holds in the first step; later ones are not guarded", "5000", "", 0, "inputs forward backward optimizer_step inputs forward backward optimizer_step inputs forward backward optimizer_step"},
		{"it does not hold", "500", "", 3, "inputs; inputs 1000"},
		{"the card has less", "90000000000", "85899345920", 3, "inputs; <nil> <nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := (&run{python: pythons(t)[0], paths: fake(t), args: []string{"-c", train}, env: []string{EnvBudget + "=" + c.budget}}).start(t)
			s := r.only(t)
			got := strings.TrimSuffix(endsOf(r), " !")
			for _, guard := range s.of("guard") {
				got += "; " + show(guard["name"]) + " " + show(guard["allocated_bytes"])
			}
			if r.status != c.status || got != c.want {
				t.Errorf("status %d, %s; want %d, %s", r.status, got, c.status, c.want)
			}
		})
	}
}

func TestStepsEnd(t *testing.T) {
	program := recording + `
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
for step in range(3):
    model(1).backward()
    optimizer.step()`
	r := (&run{python: pythons(t)[0], paths: fake(t), args: []string{"-c", program}, env: []string{EnvSteps + "=1"}}).start(t)
	if got := endsOf(r); got != "forward backward optimizer_step" || len(r.only(t).of("steps")) != 1 {
		t.Errorf("%s, %d lines of steps", got, len(r.only(t).of("steps")))
	}
}

func TestWhatIsMissing(t *testing.T) {
	program := recording + `
optimizer, other = torch.optim.Optimizer(), torch.optim.Optimizer()
torch.nn.Module()(1)
optimizer.step(); other.step()`
	r := (&run{python: pythons(t)[0], paths: fake(t), args: []string{"-c", program}, env: []string{EnvFirst + "=save"}}).start(t)
	var got []string
	for _, line := range r.only(t).of("missing") {
		got = append(got, show(line["name"])+" "+show(line["step"]))
	}
	if diff := cmp.Diff([]string{"backward 1", "save <nil>"}, got); diff != "" {
		t.Error(diff)
	}
}
