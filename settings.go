package floodmark

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/sorting"
	"floodmark/record"
	"floodmark/workload"
)

// settingsOf is everything that a workload declares, by the names of its settings,
// each once: what the figures depend on beside the model and the card. It walks the
// workload itself, so that no setting can be forgotten.
func settingsOf(w *workload.Workload) []record.NamedSetting {
	walk := &settingsWalk{values: map[string][]string{}}
	stated("", reflect.ValueOf(*w), walk.add)
	var list []record.NamedSetting
	for _, name := range walk.names {
		list = append(list, record.NamedSetting{Name: name, Value: strings.Join(walk.values[name], ", ")})
	}
	return list
}

// settingsWalk gathers values under the names of settings.
type settingsWalk struct {
	names  []string
	values map[string][]string
}

func (s *settingsWalk) add(path, text string) {
	name := settingName(path)
	if name == "" || text == "none" || text == "1" && strings.HasPrefix(path, ".mesh.") {
		return
	}
	if _, known := s.values[name]; !known {
		s.names = append(s.names, name)
	}
	s.values[name] = append(s.values[name], text)
}

// stated adds a value and what is in it, each with its path; what is zero was not
// declared.
func stated(path string, v reflect.Value, add func(path, text string)) {
	if v.IsZero() {
		return
	}
	switch of := v.Interface().(type) {
	case dtype.Format:
		add(path, workload.FormatName(of))
		return
	case account.Figure:
		return
	case fmt.Stringer:
		add(path, of.String())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		stated(path, v.Elem(), add)
	case reflect.Struct:
		for i := range v.NumField() {
			stated(path+"."+snake(v.Type().Field(i).Name), v.Field(i), add)
		}
	case reflect.Map:
		keys := v.MapKeys()
		sorting.By(keys, func(i, j int) int { return strings.Compare(keys[i].String(), keys[j].String()) })
		for _, key := range keys {
			stated(path+"."+key.String(), v.MapIndex(key), add)
		}
	case reflect.Slice:
		for i := range v.Len() {
			stated(path, v.Index(i), add)
		}
	default:
		add(path, fmt.Sprint(v.Interface()))
	}
}

// settingNames says which setting a field of a workload belongs to, the narrowest
// field first. An empty name is one that follows from others; rest is what stands
// behind the field, and last the end of it.
func settingNames() []struct{ field, name string } {
	return []struct{ field, name string }{
		{"precision.layout", ""}, {"precision.cache", cacheFormatSetting},
		{"precision.first_moment", momentsSetting}, {"precision.second_moment", momentsSetting}, {"precision", precisionSetting},
		{"training.autocast", precisionSetting}, {"training.optimizer.implementation", implementationSetting}, {"training.optimizer", optimizerSetting},
		{"training.tuning.base", baseFormatSetting}, {"training.tuning.modules", ""}, {"training.tuning", adapterSetting},
		{"training.reset", zeroGradSetting}, {"training", "rest"},
		{"inputs.name", ""}, {"inputs.dimensions", "last"}, {"mesh", "last"}, {"serving", "last"},
		{"engine", engineSetting}, {"resident", "residents"}, {"adapters", "adapters"}, {"phases", ""}, {"lowering", ""}, {"lowering_passes", ""},
	}
}

// momentsSetting is the formats of an optimizer's moments, which follow from the
// optimizer.
const momentsSetting = "moments"

// adapterSetting is all that an adapter is.
const adapterSetting = "adapter"

func settingName(path string) string {
	path = strings.TrimPrefix(path, ".")
	for _, rule := range settingNames() {
		rest, under := strings.CutPrefix(path, rule.field)
		if !under || rest != "" && rest[0] != '.' {
			continue
		}
		switch rule.name {
		case "rest":
			return strings.ReplaceAll(strings.TrimPrefix(rest, "."), ".", "_")
		case "last":
			return path[strings.LastIndex(path, ".")+1:]
		}
		return rule.name
	}
	return strings.ReplaceAll(path, ".", "_")
}

// snake is a Go name as files spell it.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
