package server

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// A request is decoded into a struct. A field with a "path" tag is read from the path, one with a "query" tag from
// the query, and any other from the JSON body, under the name of its "json" tag. A field with both a query and a
// json tag may come from either.

// bind decodes a request into a struct.
func bind[In any](c *request) (*In, error) {
	in := new(In)
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodDelete {
		if err := c.body(in); err != nil {
			return nil, err
		}
	}
	v := reflect.ValueOf(in).Elem()
	query := c.r.URL.Query()
	for _, field := range reflect.VisibleFields(v.Type()) {
		tag, into := field.Tag, v.FieldByIndex(field.Index)
		if name := tag.Get("path"); name != "" {
			if err := set(into, name, []string{c.r.PathValue(name)}); err != nil {
				return nil, err
			}
		}
		name := tag.Get("query")
		if name == "" {
			continue
		}
		values, given := query[name]
		delete(query, name)
		if !given {
			continue
		}
		if tag.Get("json") != "-" && tag.Get("json") != "" && !into.IsZero() {
			return nil, cairn.Invalid(name, "is in both the body and the query")
		}
		if err := set(into, name, values); err != nil {
			return nil, err
		}
	}
	for name := range query {
		return nil, cairn.Invalid(name, "is not a parameter of %s", c.r.URL.Path)
	}
	return in, c.qualify(v)
}

// set assigns the values of a parameter to a field.
func set(f reflect.Value, name string, values []string) error {
	if list, ok := f.Addr().Interface().(*[]string); ok {
		*list = values
		return nil
	}
	if len(values) > 1 {
		return cairn.Invalid(name, "is set %d times", len(values))
	}
	value := values[0]
	if at, ok := f.Addr().Interface().(*time.Time); ok {
		t, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return cairn.Invalid(name, "must be a time such as 2026-01-31T12:00:00Z, not %q", value)
		}
		*at = t
		return nil
	}
	if m, ok := f.Addr().Interface().(*cairn.Metadata); ok {
		if err := cairn.CheckJSON(name, []byte(value)); err != nil {
			return err
		}
		if err := checkNames([]byte(`{"":`+value+`}`), nil); err != nil {
			return cairn.Invalid(name, "has a duplicate name in an object")
		}
		if err := json.Unmarshal([]byte(value), m); err != nil || *m == nil {
			return cairn.Invalid(name, "must be a JSON object such as {\"plan\":\"pro\"}")
		}
		return nil
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString(value)
	case reflect.Int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return cairn.Invalid(name, "must be a whole number, not %q", value)
		}
		f.SetInt(int64(n))
	case reflect.Bool:
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return cairn.Invalid(name, "must be true or false, not %q", value)
		}
		f.SetBool(yes)
	default:
		panic("server: a parameter of type " + f.Type().String())
	}
	return nil
}

// lenient marks the struct of a body that may have unknown fields, because clients add their own.
type lenient interface{ lenient() }

// answering is the struct of a body that may have the result of a client tool, which has run. If it has, the engine
// replaces characters of the result that it cannot keep, and checks the other fields.
type answering interface{ answering() bool }

// boundRead sets the deadline for reading the body of a request.
func (h *Handler) boundRead(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		// A writer without deadlines is not that of a connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.opts.ReadTimeout))
	}
}

// body decodes the JSON body of a request. An empty body counts as an empty object.
func (c *request) body(into any) error {
	raw, err := c.readBody()
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return nil
	}
	if err := c.takePlace(len(raw)); err != nil {
		return err
	}
	// A page of another origin can send any other media type without a preflight.
	if mediaType, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return &httpError{http.StatusUnsupportedMediaType, "media_type", "body must be application/json"}
	}
	unkept := cairn.CheckJSON("body", raw)
	answer, ok := into.(answering)
	if unkept != nil {
		if !ok {
			return unkept
		}
		clean, _ := limits.CleanJSON(raw)
		if err := cairn.CheckJSON("body", clean); err != nil {
			return err
		}
	}
	of := reflect.TypeOf(into).Elem()
	if _, ok := into.(lenient); ok {
		of = nil
	}
	if err := checkNames(raw, of); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return badBody(reflect.TypeOf(into).Elem(), err)
	}
	if unkept != nil && !answer.answering() {
		return unkept
	}
	return nil
}

// badBody returns the error of a body that does not decode into a struct. It names the field at fault.
func badBody(of reflect.Type, err error) error {
	var known *cairn.Error
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &mismatch):
		field := mismatch.Field
		for first, rest, more := strings.Cut(field, "."); more; first, rest, more = strings.Cut(field, ".") {
			if _, known := fieldsOf(of)[strings.ToLower(first)]; known {
				break
			}
			field = rest // first is the name of an embedded struct, which the body does not have
		}
		if field == "" {
			field = "body"
		}
		return cairn.Invalid(field, "got a JSON %s, want a %s", mismatch.Value, kindName(mismatch.Type))
	}
	return cairn.Invalid("body", "%v", err)
}

// kindName returns the JSON name of the kind of value that a Go type is read from.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return "number"
}
