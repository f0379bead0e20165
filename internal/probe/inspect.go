package probe

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// rePython is the name of an interpreter: python, python3, python3.12, pypy3.
var rePython = regexp.MustCompile(`^(python|pypy)[0-9.]*[a-z]?$`)

// Deaf reports why a command's interpreter will not start the probe: it is told
// to ignore PYTHONPATH, or to import no sitecustomize. Empty where nothing of
// the kind is to be seen.
func Deaf(args []string) string {
	words := args
	if !rePython.MatchString(filepath.Base(args[0])) {
		words = shebang(args[0])
		// A launcher such as env stands before the interpreter.
		for len(words) > 0 && !rePython.MatchString(filepath.Base(words[0])) {
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return ""
	}
	return deafOption(words[1:])
}

// deafOption looks through the options that stand before the script.
func deafOption(words []string) string {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if !strings.HasPrefix(w, "-") || w == "-" || w == "--" {
			return ""
		}
		if strings.HasPrefix(w, "--") {
			if w == "--check-hash-based-pycs" {
				i++
			}
			continue
		}
	letters:
		for at, letter := range w[1:] {
			switch letter {
			case 'I', 'E':
				return "-" + string(letter) + " makes Python ignore PYTHONPATH"
			case 'S':
				return "-S makes Python import no sitecustomize"
			case 'c', 'm': // what follows is the program's
				return ""
			case 'W', 'X':
				if at == len(w)-2 {
					i++
				}
				break letters
			}
		}
	}
	return ""
}

// shebang is the words of the first line of a script; none where it has none.
func shebang(name string) []string {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	line, _, err := bufio.NewReaderSize(f, 512).ReadLine()
	if err != nil {
		return nil
	}
	rest, ok := strings.CutPrefix(string(line), "#!")
	if !ok {
		return nil
	}
	return strings.Fields(rest)
}

// launchers are programs that start ranks, and the flags that say how many.
// --nproc_per_node and the like count for one node, the others for all.
func launchers() map[string][]string {
	return map[string][]string{
		"torchrun":   {"--nproc_per_node", "--nproc-per-node"},
		"accelerate": {"--num_processes", "--num-processes"},
		"deepspeed":  {"--num_gpus", "--num-gpus"},
		"mpirun":     {"-n", "-np", "--np", "-c"},
		"mpiexec":    {"-n", "-np", "--np", "-c"},
		"srun":       {"-n", "--ntasks"},
	}
}

// Ranks is how many ranks a command asks for by its flags; 0 where it does not
// say, or not in numbers.
func Ranks(args []string) int {
	flags, isLauncher := launchers()[filepath.Base(args[0])]
	if !isLauncher {
		return 0
	}
	per, nodes := 0, 1
	for i, w := range args[1:] {
		name, value, joined := strings.Cut(w, "=")
		if !joined && i+2 < len(args) {
			value = args[i+2]
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			continue
		}
		for _, flag := range flags {
			if name == flag {
				per = n
			}
		}
		if name == "--nnodes" || name == "--num_nodes" {
			nodes = n
		}
	}
	return per * nodes
}

// Startable checks that a command can be started at all, before anything is
// written for it.
func Startable(name string) error {
	_, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return nil
	}
	e := notStarted(name, err)
	if errors.Is(err, fs.ErrPermission) {
		return e
	}
	// LookPath does not tell a file that is not executable from none in PATH.
	if info, statErr := os.Stat(name); statErr == nil && strings.ContainsRune(name, filepath.Separator) {
		e.(*NotStartedError).Status = StatusNotExecutable
		if info.IsDir() {
			e.(*NotStartedError).Err = errors.New("is a folder")
		}
	}
	return e
}
