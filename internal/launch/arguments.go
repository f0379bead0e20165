package launch

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// arguments are the engine's own arguments, as far as they are read.
type arguments struct {
	model                  string
	named                  string // the model behind --model
	tensor, pipeline, data int
	experts                bool
	precision              workload.Precision
	serving                *workload.Serving
	budget                 *workload.Budget
	lora                   bool
	speculative            map[string]any
	open                   []string
	features               []workload.Feature
	warnings               []account.Warning
}

func (a *arguments) warn(code, text string) {
	a.warnings = append(a.warnings, account.Warning{Code: code, Text: text})
}

// unmodelled keeps a setting whose bearing on sizes is not modelled.
func (a *arguments) unmodelled(name, why string) { a.open = append(a.open, name+": "+why) }

// read goes through the words: a flag with its values, or a word that is the
// model. Underscores in flags are dashes, as the engine's parser has it.
func (a *arguments) read(words []string) error {
	known := flags()
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if !strings.HasPrefix(word, "-") || word == "-" {
			if a.named != "" {
				return a.twoModels(word)
			}
			if a.model != "" {
				return &Error{Msg: fmt.Sprintf("%.80q stands behind the model %.80q without a flag", word, a.model), Hint: "a value that belongs to a flag of its own is one that this version does not know"}
			}
			a.model = word
			continue
		}
		name, value, joined := strings.Cut(word, "=")
		f, member := lookUp(known, name)
		switch {
		case f == nil:
			words = a.strange(name, joined, words)
			continue
		case f.kind == alone:
			if err := a.apply(*f, member, !strings.HasPrefix(name, "--no-"), value); err != nil {
				return err
			}
			continue
		case f.kind == several:
			values := []string{}
			if joined {
				values = append(values, value)
			}
			for len(words) > 0 && !strings.HasPrefix(words[0], "-") {
				values, words = append(values, words[0]), words[1:]
			}
			value = strings.Join(values, " ")
		case !joined:
			if len(words) == 0 {
				return &Error{Msg: name + " lacks its value"}
			}
			value, words = words[0], words[1:]
		}
		if err := a.apply(*f, member, true, strings.Trim(value, `"'`)); err != nil {
			return err
		}
	}
	a.guess()
	return nil
}

// twoModels refuses a command with a model as its first word and another behind
// --model: newer releases move the latter to the front and refuse the rest, older
// ones take the word (vllm/utils/argparse_utils.py, vllm/entrypoints/cli/serve.py).
func (a *arguments) twoModels(word string) error {
	return &Error{Msg: fmt.Sprintf("the command names two models, %.80q and, with --model, %.80q", word, a.named),
		Hint: "vllm serve takes the model as its first word; releases that know --model beside it refuse the second, and older ones ignore --model"}
}

// strange is a flag that is not in the table: whether it bears on sizes nobody
// can say, and its values are skipped.
func (a *arguments) strange(name string, joined bool, words []string) []string {
	a.unmodelled(name, "this flag is not known here, so nobody can say whether it bears on sizes")
	a.warn("flag_not_known", name+" is not known here: it is misspelt, or newer or older than the flags that were read")
	for !joined && len(words) > 0 && !strings.HasPrefix(words[0], "-") && a.model != "" {
		words = words[1:]
	}
	return words
}

// lookUp finds a flag by its name, one of its aliases, or with no- in front;
// what stands behind a dot is a member of its value.
func lookUp(known []flag, name string) (f *flag, member string) {
	name = strings.ReplaceAll(name, "_", "-")
	if strings.HasPrefix(name, "--") {
		var dotted bool
		name, member, dotted = strings.Cut(name, ".")
		if dotted {
			member = strings.ReplaceAll(member, "-", "_")
		}
	}
	for i := range known {
		if slices.Contains(known[i].names, name) {
			return &known[i], member
		}
		if known[i].kind == alone && "--no-"+strings.TrimPrefix(known[i].names[0], "--") == name {
			return &known[i], member
		}
	}
	return nil, ""
}

// apply is what a flag changes.
func (a *arguments) apply(f flag, member string, on bool, value string) error {
	if f.open != "" && on && !slices.Contains(neutral(), value) {
		a.unmodelled(f.names[0], f.open)
	}
	if f.number != nil {
		n, err := whole(value)
		if err != nil {
			return &Error{Msg: fmt.Sprintf("%s is %.80q, expected a whole number", f.names[0], value)}
		}
		return f.number(a, n)
	}
	if f.toggle != nil {
		f.toggle(a, on)
	}
	if f.text != nil {
		return f.text(a, member, value)
	}
	return nil
}

// neutral are values with which a flag changes nothing: what the engine does
// without it.
func neutral() []string {
	return strings.Fields("auto none None 0 0.0 generate safetensors runai_streamer fastsafetensors vllm {}")
}

// layout is the degrees that were given. Expert parallelism takes the ranks of
// tensor and data parallelism together.
func (a *arguments) layout() workload.Mesh {
	m := workload.Mesh{TensorParallel: max(1, a.tensor), PipelineParallel: max(1, a.pipeline), DataParallel: max(1, a.data), ExpertParallel: 1, ContextParallel: 1}
	if a.experts {
		m.ExpertParallel = m.TensorParallel * m.DataParallel
	}
	return m
}

// guess reads the configuration of speculation, and the slots of adapters.
func (a *arguments) guess() {
	if a.lora {
		a.budget.AdapterSlots, a.budget.AdapterRank = max(1, a.budget.AdapterSlots), max(16, a.budget.AdapterRank)
	} else {
		a.budget.AdapterSlots, a.budget.AdapterRank = 0, 0
	}
	if a.speculative == nil {
		return
	}
	a.budget.Speculative = 1
	switch n, is := a.speculative["num_speculative_tokens"].(float64); {
	case is && n >= 1 && n < 1<<16 && n == math.Trunc(n):
		a.budget.Speculative = int64(n)
	case a.speculative["num_speculative_tokens"] != nil:
		a.unmodelled("--speculative-config", fmt.Sprintf("num_speculative_tokens is %.40q, expected a whole number from 1 to %d", fmt.Sprint(a.speculative["num_speculative_tokens"]), 1<<16-1))
	}
	if drafter, is := a.speculative["model"].(string); is {
		a.budget.Drafter = drafter
		a.unmodelled("--speculative-config", "the weights and the cache of the model "+drafter+", which guesses ahead, are not counted")
	}
}

// members reads the value of a flag that is JSON, or one member of it.
func members(into map[string]any, member, value string) (map[string]any, error) {
	if into == nil {
		into = map[string]any{}
	}
	if member == "" {
		if err := json.Unmarshal([]byte(value), &into); err != nil {
			return nil, &Error{Msg: fmt.Sprintf("%.60q is no JSON object", value)}
		}
		return into, nil
	}
	if f, err := strconv.ParseFloat(value, 64); err == nil {
		into[member] = f
	} else {
		into[member] = value
	}
	return into, nil
}

var human = regexp.MustCompile(`^(\d{1,15}(?:\.\d{1,6})?)([kKmMgGtT]?)$`)

// whole is a whole number as the engine's parser reads it: 32k is 32,000, 32K is
// 32,768 (human_readable_int of vllm/engine/arg_utils.py).
func whole(text string) (int64, error) {
	if text == "auto" || text == "-1" {
		return -1, nil
	}
	m := human.FindStringSubmatch(strings.ReplaceAll(text, "_", ""))
	if m == nil {
		return 0, strconv.ErrSyntax
	}
	n, _ := new(big.Rat).SetString(m[1])
	at := strings.Index("kmgt", strings.ToLower(m[2]))
	for range at + 1 {
		if m[2] == "" {
			break
		}
		n.Mul(n, big.NewRat(map[bool]int64{true: 1000, false: 1024}[m[2] == strings.ToLower(m[2])], 1))
	}
	if !n.IsInt() || !n.Num().IsInt64() {
		return 0, strconv.ErrRange
	}
	return n.Num().Int64(), nil
}

// format reads --dtype and its like.
func format(text string) (dtype.Format, bool) {
	switch text {
	case "half":
		return dtype.F16, true
	case "float":
		return dtype.F32, true
	}
	return dtype.Parse(text)
}
