package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/dtype"
	"floodmark/workload"
)

// everyLayer is how many layers people ask for who mean all of them (-ngl 99).
const everyLayer = 99

// autoSlots is how many slots the server takes where nobody said it
// (tools/server/server.cpp of builds since 2026); they share the context.
const autoSlots = 4

// llama is the server's arguments, as far as they are read.
type llama struct {
	arguments
	context, slots int64
	keys, values   string
}

// finishLlama reads the arguments of llama-server (common/arg.cpp of llama.cpp).
func (r *reader) finishLlama(words []string) (*Command, error) {
	l := &llama{arguments: arguments{budget: &workload.Budget{}, serving: &workload.Serving{}}}
	for len(words) > 0 {
		name, value, joined := strings.Cut(words[0], "=")
		words = words[1:]
		if !strings.HasPrefix(name, "-") {
			return nil, &Error{Msg: fmt.Sprintf("%.80q stands behind no flag", name), Hint: "a value that belongs to a flag of its own is one that this version does not know"}
		}
		if !joined && len(words) > 0 && !flagLike(words[0]) {
			value, words = words[0], words[1:]
		}
		if err := l.apply(name, value); err != nil {
			return nil, err
		}
	}
	if l.model == "" {
		return nil, &Error{Msg: "the command names no model", Hint: "llama-server -m FILE.gguf -c POSITIONS …"}
	}
	l.cacheFormat()
	l.share()
	l.serving.Budget = l.budget
	w := workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: "llama.cpp", Version: r.version}, Mesh: workload.Single(),
		Precision: l.precision, Serving: l.serving, Open: l.open, Features: l.features}
	return &Command{Model: l.model, Workload: w, Devices: r.devices, Warnings: l.warnings}, nil
}

// flagLike tells a flag from a negative number.
func flagLike(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return strings.HasPrefix(word, "-") && err != nil
}

// apply is what a flag changes. One that bears on no size is left alone.
func (l *llama) apply(name, value string) error {
	var count *int64
	switch name {
	case "-m", "--model":
		l.model = value
		return nil
	case "-hf", "-hfr", "--hf-repo":
		repo, file, tagged := strings.Cut(value, ":")
		if l.model = repo; tagged {
			l.warn("file_of_repository", "of the repository "+repo+" the file of "+file+" is asked for: name that file to count it")
		}
		return nil
	case "-c", "--ctx-size":
		count = &l.context
	case "-np", "--parallel":
		count = &l.slots
	case "-ub", "--ubatch-size":
		count = &l.budget.BatchedTokens
	case "-ngl", "--gpu-layers", "--n-gpu-layers":
		return l.layers(value)
	case "-fa", "--flash-attn":
		l.flash(value)
		return nil
	case "-ctk", "--cache-type-k":
		l.keys = value
		return nil
	case "-ctv", "--cache-type-v":
		l.values = value
		return nil
	case "--swa-full":
		l.budget.OneKind = true
		return nil
	}
	if count != nil {
		n, err := whole(value)
		if err != nil || n < -1 {
			return &Error{Msg: fmt.Sprintf("%s is %.80q, expected a whole number", name, value)}
		}
		*count = max(n, 0)
		return nil
	}
	if why, bears := llamaOpen(name); bears {
		l.unmodelled(name, why)
	} else if !slices.Contains(strings.Fields(llamaHarmless), name) {
		l.unmodelled(name, "this flag is not known here, so nobody can say whether it bears on sizes")
		l.warn("flag_not_known", name+" is not known here: it is misspelt, or newer or older than the flags that were read")
	}
	return nil
}

// layers reads how many layers go on cards. Fewer than all stay in main memory.
func (l *llama) layers(value string) error {
	if value == "all" || value == "auto" {
		return nil
	}
	n, err := whole(value)
	if err != nil {
		return &Error{Msg: fmt.Sprintf("--gpu-layers is %.80q, expected a whole number, all or auto", value)}
	}
	if n >= 0 && n < everyLayer {
		l.unmodelled("--gpu-layers", fmt.Sprintf("whether %d layers are all that the model has is not compared, and what stays in main memory is not modelled", n))
	}
	return nil
}

// flash reads whether attention runs in kernels that make no scores; without a
// value, as older builds have it, it does.
func (l *llama) flash(value string) {
	switch value {
	case "off", "0", "false", "disabled":
		l.features = append(l.features, workload.NoFlashAttention)
	case "auto", "-1":
	default:
		l.features = append(l.features, workload.FlashAttention)
	}
}

// cacheFormat is the format of keys and values, where both have one.
func (l *llama) cacheFormat() {
	if l.keys == l.values && l.keys != "" {
		if f, known := dtype.Parse(l.keys); known {
			l.precision.Cache = f
			return
		}
	}
	if l.keys != l.values || l.keys != "" {
		l.unmodelled("--cache-type-k", "keys and values in formats of their own, or in one that is not known here, are not read from a command")
	}
}

// share divides the context over the slots.
func (l *llama) share() {
	if l.slots == 0 {
		l.slots = autoSlots
		l.warn("slots_assumed", fmt.Sprintf("the slots were not given (--parallel): %d are assumed, which share the context, as the newest builds take them", l.slots))
	}
	l.serving.MaxRequests = l.slots
	if l.context > 0 {
		l.serving.MaxLength = (l.context + l.slots - 1) / l.slots
	}
}

// llamaOpen is flags that bear on sizes in a way that is not modelled.
func llamaOpen(name string) (why string, bears bool) {
	switch name {
	case "-md", "--model-draft", "-hfd", "--hf-repo-draft", "--spec-type":
		return "the weights, cache and compute buffer of a model that guesses ahead are not counted", true
	case "-mm", "--mmproj", "--mmproj-url":
		return "the projector of images is a file of its own, which is not counted", true
	case "-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe", "-nkvo", "--no-kv-offload":
		return "what stays in main memory, and what of it crosses to the card for a step, is not modelled", true
	case "-ts", "--tensor-split", "-sm", "--split-mode", "-dev", "--device", "-mg", "--main-gpu":
		return "how layers are divided over several cards is not read from a command", true
	case "--lora", "--lora-scaled", "--control-vector":
		return "what is loaded beside the model is not counted", true
	}
	return "", false
}

// llamaHarmless is flags that bear on no size of a card, or only beside another that is
// reported: those of a model that guesses ahead.
const llamaHarmless = `--host --port --path --api-key --alias -a -t --threads -tb --threads-batch --temp --top-k --top-p --min-p --seed -s -n --predict --n-predict
 --repeat-penalty --presence-penalty --frequency-penalty --jinja --chat-template --chat-template-file --reasoning-format --reasoning-budget -cb --cont-batching --metrics --slots --no-slots --props
 --mlock --no-mmap --mmap --numa --verbose -v --log-file --log-disable --no-webui --timeout -to --prio --warmup --no-warmup --rope-scaling --rope-freq-base --rope-freq-scale --cache-reuse
 -b --batch-size -kvu --kv-unified --no-mmproj --offline --perf --no-perf -lv --log-verbosity --ssl-key-file --ssl-cert-file --threads-http
 --load-mode --no-ui --ui --cache-ram -cram --fit -fit --fit-target --fit-ctx -ngld --gpu-layers-draft --n-gpu-layers-draft --draft --draft-max --draft-min --draft-p-min -cd --ctx-size-draft
 --device-draft -devd --direct-io --no-direct-io --poll --cpu-mask --log-timestamps --log-prefix --media-path --tools --samplers --top-n-sigma --xtc-probability --dry-multiplier --mirostat --grammar --json-schema`
