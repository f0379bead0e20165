package record

import (
	"fmt"
	"reflect"
	"strings"

	"floodmark/internal/source"
)

// checkValues checks what a record that was read back says: counts are not
// negative, an interval has its low first, and an estimate is about something.
func checkValues(file string, document any) error {
	if e, ok := document.(*Estimate); ok && len(e.Ranks) == 0 {
		return source.InField(file, "ranks", "is empty, expected at least one rank").WithHint("the estimate was never made, or was cut by hand")
	}
	c := &checker{file: file}
	c.value("", "", reflect.ValueOf(document).Elem())
	return c.err
}

// checker keeps the first thing that is wrong.
type checker struct {
	file string
	err  error
}

func (c *checker) refuse(path, format string, args ...any) {
	if c.err == nil {
		c.err = source.InField(c.file, path, format, args...).WithHint("no floodmark wrote this; the file was changed")
	}
}

// value checks the value of a field of that name; the types do not nest
// without end.
func (c *checker) value(path, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.value(path, name, v.Elem())
		}
	case reflect.Struct:
		c.structure(path, v)
	case reflect.Slice:
		for i := range v.Len() {
			c.value(fmt.Sprintf("%s[%d]", path, i), name, v.Index(i))
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			c.value(path+"."+entries.Key().String(), name, entries.Value())
		}
	case reflect.Int, reflect.Int64:
		if v.Int() < 0 && !signed(name) {
			c.refuse(path, "is %d, which is negative", v.Int())
		}
	}
}

func (c *checker) structure(path string, v reflect.Value) {
	known := map[string]int64{}
	// An engine prints room that is lacking with a minus sign.
	line, _ := v.Interface().(Component)
	lacking := strings.HasPrefix(line.Printed, "-")
	var names []string
	for _, field := range reflect.VisibleFields(v.Type()) {
		if field.Anonymous {
			continue
		}
		name := jsonName(field)
		value := v.FieldByIndex(field.Index)
		if !lacking || !isBytes(name) {
			c.value(join(path, name), name, value)
		}
		if isBytes(name) && value.Kind() == reflect.Pointer && !value.IsNil() {
			known[name] = value.Elem().Int()
			names = append(names, name)
		}
	}
	for _, name := range names {
		c.interval(path, name, known)
	}
}

// interval checks the ends of a figure, whose fields are x_bytes, x_low_bytes
// and x_high_bytes.
func (c *checker) interval(path, name string, known map[string]int64) {
	figure, isLow := strings.CutSuffix(name, "low_bytes")
	if !isLow {
		figure = strings.TrimSuffix(name, "bytes")
	}
	for _, above := range []string{figure + "bytes", figure + "high_bytes"} {
		if n, ok := known[above]; ok && above != name && n < known[name] && (isLow || above == figure+"high_bytes") {
			c.refuse(join(path, name), "is %d, above %s, which is %d", known[name], above, n)
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// signed reports a number that may be negative: a difference, room that is lacking, a
// moment that is before the first, a seed.
func signed(name string) bool {
	switch name {
	case "seed", "event", "first_birth", "last_birth", "last_free", "low_moved_bytes", "high_moved_bytes", "room_low_bytes", "room_high_bytes":
		return true
	}
	for _, prefix := range []string{"headroom_", "difference_", "remainder_", "observed_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "_event")
}
