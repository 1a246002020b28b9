package sample

import (
	"fmt"
	"reflect"
	"time"
)

// Durations returns the fields of a type, and of all that it contains, that JSON would have as an integer of
// nanoseconds, since they are of the type [time.Duration]. known has the types that were searched before.
func Durations(t reflect.Type, known map[reflect.Type]bool) []string {
	if known[t] {
		return nil
	}
	known[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if t.Elem() == reflect.TypeFor[time.Duration]() {
			return []string{"an element of " + t.String()}
		}
		return Durations(t.Elem(), known)
	case reflect.Struct:
	default:
		return nil
	}
	var list []string
	for f := range t.Fields() {
		switch {
		case f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous:
		case f.Type == reflect.TypeFor[time.Duration]():
			list = append(list, fmt.Sprintf("%s.%s", t, f.Name))
		default:
			list = append(list, Durations(f.Type, known)...)
		}
	}
	return list
}
