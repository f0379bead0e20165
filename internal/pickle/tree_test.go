package pickle

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// tree is a builder that keeps everything, as a reader of small files would:
// Go values as encoding/json makes them, with numbers as text.
type tree struct {
	strings *Strings
	values  []any // by reference − 1
	calls   int
}

func newTree() *tree { return &tree{strings: NewStrings()} }

func (t *tree) keep(v any) uint64 {
	t.values = append(t.values, v)
	return uint64(len(t.values))
}

func (t *tree) SetItems(dict Value, items []Value) (Value, error) {
	t.calls++
	if dict.Ref() == 0 {
		dict = DictRef(t.keep(map[string]any{}))
	}
	m := t.values[dict.Ref()-1].(map[string]any)
	for i := 0; i < len(items); i += 2 {
		m[t.strings.At(items[i].Index())] = t.value(items[i+1])
	}
	return dict, nil
}

func (t *tree) Append(list Value, items []Value) (Value, error) {
	t.calls++
	if list.Ref() == 0 {
		list = ListRef(t.keep([]any{}))
	}
	for _, v := range items {
		t.values[list.Ref()-1] = append(t.values[list.Ref()-1].([]any), t.value(v))
	}
	return list, nil
}

func (t *tree) Tuple(items []Value) (Value, error) {
	t.calls++
	list := []any{}
	for _, v := range items {
		list = append(list, t.value(v))
	}
	return TupleRef(t.keep(list)), nil
}

func (t *tree) value(v Value) any {
	switch v.Kind() {
	case None:
		return nil
	case Bool:
		n, _ := v.Int()
		return n == 1
	case Int:
		n, _ := v.Int()
		return json.Number(strconv.FormatInt(n, 10))
	case Uint:
		n, _ := v.Uint()
		return json.Number(strconv.FormatUint(n, 10))
	case Float:
		f, _ := v.Float()
		return f
	case String:
		return t.strings.At(v.Index())
	case Global:
		return fmt.Sprintf("global %d", v.Index())
	}
	if v.Ref() == 0 && v.Kind() == Dict {
		return map[string]any{}
	} else if v.Ref() == 0 {
		return []any{}
	}
	return t.values[v.Ref()-1]
}

// parse reads a pickle into a tree.
func parse(data string, options Options) (any, error) {
	t := newTree()
	v, err := Read(strings.NewReader(data), "test.pickle", int64(len(data)), t.strings, t, options)
	if err != nil {
		return nil, err
	}
	return t.value(v), nil
}
