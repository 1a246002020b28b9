package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/durations"
	"go.yaml.in/yaml/v4"
)

const (
	// maxFile bounds the file in bytes, maxNodes the number of nodes once aliases are resolved.
	maxFile  = 1 << 20
	maxNodes = 100_000
)

// Read reads a file and expands environment variables in it. The error is an *Error unless the file cannot be
// opened.
func Read(file string, env map[string]string, providers []string) (*Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, &cairn.Error{Code: cairn.ErrInvalid, Field: "config", Message: "--config: " + err.Error(), Cause: err}
	}
	defer f.Close()
	raw := make([]byte, maxFile+1)
	n := 0
	for n < len(raw) {
		m, err := f.Read(raw[n:])
		if n += m; err != nil {
			break
		}
	}
	return Parse(file, raw[:n], env, providers)
}

// Parse decodes the content of a file. providers are the known providers of models. The error is an *Error.
func Parse(file string, raw []byte, env map[string]string, providers []string) (*Config, error) {
	d := &decoder{env: env, providers: append(slices.Clone(providers), Scripted), at: map[string]place{}, failed: &Error{File: file}}
	c := defaults()
	if len(raw) > maxFile {
		d.report(place{}, "", "file is too large (max 1 MiB)")
		return nil, d.failed
	}
	if strings.ContainsAny(string(raw), opened+closed) {
		d.report(place{}, "", "file must not have the private-use characters %+q and %+q", opened, closed)
		return nil, d.failed
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(hide(string(raw))), &doc); err != nil {
		d.syntax(err)
		return nil, d.failed
	}
	if len(doc.Content) > 0 && !null(doc.Content[0]) {
		d.value(doc.Content[0], reflect.ValueOf(c).Elem(), "", "")
	}
	d.check(c)
	if len(d.failed.Problems) > 0 {
		d.failed.sort()
		return nil, d.failed
	}
	return c, nil
}

// place is a position in the file.
type place struct{ line, column int }

// decoder decodes nodes into Go values and collects the problems.
type decoder struct {
	env       map[string]string
	providers []string
	at        map[string]place // by path
	nodes     int
	raw       int // depth of nested fields whose text is not expanded
	failed    *Error
}

func (d *decoder) report(p place, path, format string, args ...any) {
	if len(d.failed.Problems) < 100 {
		d.failed.Problems = append(d.failed.Problems, Problem{Line: p.line, Column: p.column, Path: path, Text: fmt.Sprintf(format, args...)})
	}
}

// wrong reports a problem with a key by its path.
func (d *decoder) wrong(path, format string, args ...any) {
	p, ok := d.at[path]
	for up := path; !ok && up != ""; {
		up = up[:max(0, strings.LastIndexAny(up, ".["))]
		p, ok = d.at[up]
	}
	d.report(p, path, format, args...)
}

func (d *decoder) syntax(err error) {
	var load *yaml.LoadError
	if errors.As(err, &load) && load.Mark.Line > 0 {
		d.report(place{load.Mark.Line, load.Mark.Column}, "", "%s", load.Message)
		return
	}
	d.report(place{}, "", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// resolve follows an alias. It returns nil if the file has too many nodes or the alias leads nowhere.
func (d *decoder) resolve(n *yaml.Node, path string) *yaml.Node {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.report(place{n.Line, n.Column}, path, "file has too many values")
		}
		return nil
	}
	for hops := 0; n.Kind == yaml.AliasNode; hops++ {
		if n.Alias == nil || hops > 10 {
			d.report(place{n.Line, n.Column}, path, "unresolved alias")
			return nil
		}
		n = n.Alias
	}
	return n
}

// value decodes a node into a value. choices are the words that a text may be; empty means any.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path, choices string) {
	here := place{n.Line, n.Column}
	d.at[path] = here
	if n = d.resolve(n, path); n == nil || strings.Count(path, ".") > cairn.MaxJSONDepth {
		return
	}
	expected := func(what string) { d.report(here, path, "got %s, want %s", kindOf(n), what) }
	// A null counts as a missing key.
	if null(n) || d.ownForm(n, v, path, here, expected) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), path, "")
		v.Set(p)
	case reflect.Struct:
		if n.Kind != yaml.MappingNode {
			expected("a mapping of keys")
			return
		}
		d.object(n, v, path)
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			expected("a mapping of names")
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		d.members(n, path, func(name string, _ place, node *yaml.Node, path string) {
			item := reflect.New(v.Type().Elem()).Elem()
			d.value(node, item, path, choices)
			v.SetMapIndex(reflect.ValueOf(name), item)
		})
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			expected("a list")
			return
		}
		for i, node := range n.Content {
			item := reflect.New(v.Type().Elem()).Elem()
			d.value(node, item, fmt.Sprintf("%s[%d]", path, i), choices)
			v.Set(reflect.Append(v, item))
		}
	default:
		d.plain(n, v, path, choices, expected)
	}
}

// ownForm decodes a value whose type has its own form, and reports whether it has one.
func (d *decoder) ownForm(n *yaml.Node, v reflect.Value, path string, here place, expected func(what string)) bool {
	switch into := v.Addr().Interface().(type) {
	case *JSON:
		d.json(n, into, path)
	case *Duration:
		t, err := durations.Parse(d.scalar(n, path))
		switch {
		case err != nil:
			expected("a duration such as 90s, 24h or 30d")
		case t <= 0:
			d.report(here, path, "must be positive, not %s", n.Value)
		}
		*into = Duration(t)
	case *Bytes:
		if size, ok := parseBytes(d.scalar(n, path)); ok {
			*into = size
		} else {
			expected("a size such as 512KiB or 4MiB")
		}
	default:
		return false
	}
	return true
}

// plain decodes a text, a number or a boolean.
func (d *decoder) plain(n *yaml.Node, v reflect.Value, path, choices string, expected func(string)) {
	here := place{n.Line, n.Column}
	if n.Kind != yaml.ScalarNode {
		expected(map[reflect.Kind]string{reflect.String: "a text", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number"}[v.Kind()])
		return
	}
	text := d.scalar(n, path)
	switch v.Kind() {
	case reflect.String:
		// A number or a word such as yes is a text here, verbatim.
		if problem := cairn.CheckText(path, text); problem != nil {
			d.report(here, path, "%s", strings.TrimPrefix(problem.Error(), path+": "))
		}
		if words := strings.Fields(choices); len(words) > 0 && !slices.Contains(words, text) {
			d.report(here, path, "unknown value %q: must be one of %s%s", text, strings.Join(words, ", "), meant(text, words))
			return
		}
		v.SetString(text)
	case reflect.Bool:
		yes, err := strconv.ParseBool(text)
		if err != nil || len(text) == 1 {
			expected("true or false")
		}
		v.SetBool(yes)
	case reflect.Int:
		i, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			expected("a whole number")
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			expected("a number")
		}
		v.SetFloat(f)
	}
}

func meant(typed string, names []string) string {
	if near := nearest(typed, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// object decodes a mapping into a struct.
func (d *decoder) object(n *yaml.Node, v reflect.Value, path string) {
	fields, names := map[string]int{}, []string{}
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		fields[name] = i
		names = append(names, name)
	}
	d.members(n, path, func(name string, key place, node *yaml.Node, path string) {
		i, ok := fields[name]
		if !ok {
			d.report(key, path, "unknown key%s", meant(name, names))
			return
		}
		tag := v.Type().Field(i).Tag
		if tag.Get("text") == "raw" {
			d.raw++
			defer func() { d.raw-- }()
		}
		d.value(node, v.Field(i), path, tag.Get("oneof"))
	})
}

// members yields the members of a mapping with their paths.
func (d *decoder) members(n *yaml.Node, path string, do func(name string, key place, value *yaml.Node, path string)) {
	seen := map[string]place{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := place{key.Line, key.Column}
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			d.report(at, path, "key must be a plain word")
			continue
		}
		if before, twice := seen[key.Value]; twice {
			d.report(at, join(path, key.Value), "duplicate key; first set in line %d", before.line)
			continue
		}
		seen[key.Value] = at
		do(shown(key.Value), at, n.Content[i+1], join(path, shown(key.Value)))
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// variable is a reference to an environment variable or to the content of a file: ${NAME}, ${NAME:-default}, ${file:PATH};
// $${ is ${ itself.
var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// fromFile precedes the path of a file in a reference, maxSecret limits its size in bytes.
const (
	fromFile  = "file:"
	maxSecret = 64 << 10
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// In YAML a brace ends a plain word within braces. References are therefore hidden behind other characters, one for
// one, while the YAML is parsed.
const opened, closed = "\uE000", "\uE001"

var reference = regexp.MustCompile(`\$\{((?:[A-Za-z_][A-Za-z0-9_]*|file:[^{}:\n]+)(?::-[^{}\n]*)?)\}`)

func hide(text string) string { return reference.ReplaceAllString(text, opened+opened+"$1"+closed) }

var shownAgain = strings.NewReplacer(opened+opened, "${", closed, "}")

// shown restores a text of the document to its form in the file.
func shown(text string) string { return shownAgain.Replace(text) }

// Expand expands environment variables in a text. The error names a variable that is not set.
func Expand(text string, env map[string]string) (string, error) {
	d := &decoder{env: env, failed: &Error{}}
	text = d.expand(text, place{}, "")
	if len(d.failed.Problems) > 0 {
		return "", cairn.Invalid("env", "%s", d.failed.Problems[0].Text)
	}
	return text, nil
}

// scalar returns the text of a node with its environment variables expanded.
func (d *decoder) scalar(n *yaml.Node, path string) string {
	text := shown(n.Value)
	if d.raw > 0 || n.Kind != yaml.ScalarNode {
		return text
	}
	return d.expand(text, place{n.Line, n.Column}, path)
}

func (d *decoder) expand(text string, at place, path string) string {
	return variable.ReplaceAllStringFunc(text, func(ref string) string {
		if strings.HasPrefix(ref, "$$") {
			return ref[1:]
		}
		name, other, hasOther := strings.Cut(ref[2:len(ref)-1], ":-")
		if file, ok := strings.CutPrefix(name, fromFile); ok {
			value, err := secret(file)
			if errors.Is(err, os.ErrNotExist) && hasOther {
				return other
			}
			if err != nil {
				d.report(at, path, "${%s}: %v", name, err)
			}
			return value
		}
		value, set := d.env[name]
		switch {
		case !variableName.MatchString(name):
			d.report(at, path, "${%s} must name an environment variable or a file; write $${ for a plain ${", name)
		case value == "" && hasOther:
			return other
		case !set:
			d.report(at, path, "environment variable %s is not set; use ${%s:-} if it may be unset", name, name)
		}
		return value
	})
}

// secret returns the content of a file without the line break at its end.
func secret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", err
	case len(raw) > maxSecret:
		return "", fmt.Errorf("file is too large (max %d bytes)", maxSecret)
	}
	return strings.TrimRight(string(raw), "\r\n"), nil
}

// json decodes any value.
func (d *decoder) json(n *yaml.Node, into *JSON, path string) {
	value, ok := d.any(n, path, 0)
	if !ok {
		return
	}
	raw, err := json.Marshal(value)
	if err == nil {
		err = cairn.CheckJSON(path, raw)
	}
	if err != nil {
		d.report(place{n.Line, n.Column}, path, "%v", err)
		return
	}
	*into = raw
}

// any returns a node as a value for encoding/json.
func (d *decoder) any(n *yaml.Node, path string, depth int) (value any, ok bool) {
	if n = d.resolve(n, path); n == nil {
		return nil, false
	}
	if depth > cairn.MaxJSONDepth {
		d.report(place{n.Line, n.Column}, path, "is nested too deeply")
		return nil, false
	}
	ok = true
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		d.members(n, path, func(name string, _ place, node *yaml.Node, path string) {
			v, good := d.any(node, path, depth+1)
			object[name], ok = v, ok && good
		})
		return object, ok
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, node := range n.Content {
			v, good := d.any(node, fmt.Sprintf("%s[%d]", path, i), depth+1)
			list[i], ok = v, ok && good
		}
		return list, ok
	}
	return d.word(n, path)
}

// word returns a scalar as its YAML type.
func (d *decoder) word(n *yaml.Node, path string) (any, bool) {
	switch n.ShortTag() {
	case "!!null":
		return nil, true
	case "!!bool":
		return n.Value == "true" || n.Value == "True" || n.Value == "TRUE", true
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			d.report(place{n.Line, n.Column}, path, "must be a number that JSON can represent")
			return nil, false
		}
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value), true
		}
		return f, true
	}
	return shown(n.Value), true
}

// kindOf names the kind of a node without showing its value, which may be a secret.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	}
	return "a text"
}

var sizes = map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 1e3, "MB": 1e6, "GB": 1e9}

// parseBytes parses a size.
func parseBytes(text string) (Bytes, bool) {
	digits := strings.TrimRight(text, "BKMGib ")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, known := sizes[strings.TrimSpace(text[len(digits):])]
	if err != nil || !known || n <= 0 || n > math.MaxInt64/unit {
		return 0, false
	}
	return Bytes(n * unit), true
}
