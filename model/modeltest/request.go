package modeltest

import (
	"fmt"
	"reflect"

	"github.com/cairn-agents/cairn"
)

var requestChecks = []check{{name: "Request", run: unchanged}}

// unchanged tests that a call leaves its request as it was, and what its slices could grow into.
func unchanged(h *harness) {
	requests := map[string]*cairn.Request{"a text": h.text("white lamp"), "a long history": everything()}
	if !h.without(Calls) {
		requests["a call"] = h.call("white lamp")
	}
	for what, made := range requests {
		sent, kept := copyOf(made), copyOf(made)
		if problem := h.ask(h.Context(), sent).broken(); problem != "" {
			h.Fatalf("asked for %s: %s", what, problem)
		}
		if where := difference("Request", reflect.ValueOf(sent).Elem(), reflect.ValueOf(kept).Elem()); where != "" {
			h.Errorf("asked for %s, the model has changed its request: %s", what, where)
		}
	}
}

// copyOf returns a deep copy of a request, in which each slice has room for one more element.
func copyOf(req *cairn.Request) *cairn.Request {
	return deepCopy(reflect.ValueOf(req)).Interface().(*cairn.Request)
}

func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(deepCopy(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(deepCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()+1))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for entries := v.MapRange(); entries.Next(); {
				out.SetMapIndex(entries.Key(), deepCopy(entries.Value()))
			}
		}
	case reflect.Struct:
		out.Set(v) // what is not exported, as in a time, is shared
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	default:
		out.Set(v)
	}
	return out
}

// difference returns where two copies differ, or an empty text.
func difference(path string, got, want reflect.Value) string {
	switch got.Kind() {
	case reflect.Pointer, reflect.Interface:
		if got.IsNil() || want.IsNil() || got.Elem().Type() != want.Elem().Type() {
			return differs(path, got, want, got.IsNil() && want.IsNil())
		}
		return difference(path, got.Elem(), want.Elem())
	case reflect.Slice:
		if got.Len() != want.Len() || got.IsNil() != want.IsNil() {
			return fmt.Sprintf("%s has %d elements, had %d", path, got.Len(), want.Len())
		}
		for i := range got.Len() {
			if where := difference(fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i)); where != "" {
				return where
			}
		}
		if n := got.Len(); got.Cap() > n && !got.Slice(0, n+1).Index(n).IsZero() {
			return fmt.Sprintf("something was appended to %s in its own array, which the caller may share", path)
		}
		return ""
	case reflect.Map:
		if got.Len() != want.Len() {
			return fmt.Sprintf("%s has %d entries, had %d", path, got.Len(), want.Len())
		}
		for entries := want.MapRange(); entries.Next(); {
			one := got.MapIndex(entries.Key())
			if !one.IsValid() {
				return fmt.Sprintf("%s[%v] is gone", path, entries.Key())
			}
			if where := difference(fmt.Sprintf("%s[%v]", path, entries.Key()), one, entries.Value()); where != "" {
				return where
			}
		}
		return ""
	case reflect.Struct:
		whole := true
		for i := range got.NumField() {
			field := got.Type().Field(i)
			if whole = whole && field.IsExported(); !field.IsExported() {
				continue
			}
			if where := difference(path+"."+field.Name, got.Field(i), want.Field(i)); where != "" {
				return where
			}
		}
		return differs(path, got, want, whole || reflect.DeepEqual(got.Interface(), want.Interface()))
	}
	return differs(path, got, want, got.Equal(want))
}

func differs(path string, got, want reflect.Value, equal bool) string {
	if equal {
		return ""
	}
	return fmt.Sprintf("%s is %v, was %v", path, got, want)
}
