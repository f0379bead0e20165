package report

import (
	"reflect"

	"floodmark/internal/source"
)

// shown is a copy of a record in which every text is made visible. Names,
// frames and messages come from files that somebody sent: none of them may
// reach the terminal as commands, or begin a line that reads like an answer.
// One copy at the edge, so that no view can forget a field.
func shown[T any](document *T) *T {
	return visible(reflect.ValueOf(document)).Interface().(*T)
}

// visible copies a value of a record's type; these do not nest without end.
func visible(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.String:
		c := reflect.New(v.Type()).Elem()
		c.SetString(source.Visible(v.String()))
		return c
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(visible(v.Elem()))
		return c
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			c.Field(i).Set(visible(v.Field(i)))
		}
		return c
	case reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			c.Index(i).Set(visible(v.Index(i)))
		}
		return c
	case reflect.Map:
		c := reflect.MakeMap(v.Type())
		for entries := v.MapRange(); entries.Next(); {
			c.SetMapIndex(visible(entries.Key()), visible(entries.Value()))
		}
		return c
	}
	return v
}
