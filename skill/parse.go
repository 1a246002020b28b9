package skill

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// checkName returns what is wrong with a skill's name; "" if nothing is.
func checkName(name string) string {
	if !validName.MatchString(name) || len(name) > MaxName {
		return fmt.Sprintf("name: must be 1 to %d lower-case letters and digits, with single hyphens between them, got %q", MaxName, name)
	}
	return ""
}

// Parse reads a SKILL.md. dir is the name of its folder, which replaces a missing name. Mistakes that leave the skill
// usable become warnings: a name that differs from the folder's, a value with an unquoted colon, a description that is
// too long, which is cut, or a field of another type. Other mistakes are errors: text that is not UTF-8, no front
// matter, no description, a name that is not valid.
func Parse(dir string, raw []byte) (*Skill, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("SKILL.md: not UTF-8")
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(raw), "\ufeff"), "\r\n", "\n")
	front, body, ok := split(text)
	if !ok {
		return nil, fmt.Errorf("SKILL.md: must begin with front matter between two lines of ---")
	}
	s := &Skill{Body: strings.TrimSpace(body)}
	fields, err := decode(front)
	if err != nil {
		lenient, changed := quoteColons(front)
		again, err2 := decode(lenient)
		if !changed || err2 != nil {
			return nil, fmt.Errorf("SKILL.md: front matter: %w", err)
		}
		fields = again
		s.warn("front matter: a value with a colon must be in quotes")
	}
	s.fill(fields)
	switch {
	case s.Name == "":
		s.Name = dir
		s.warn("name: is missing; using the folder's name")
	case s.Name != dir && dir != "":
		s.warn("name: %q differs from the folder %q", s.Name, dir)
	}
	if problem := checkName(s.Name); problem != "" {
		if checkName(dir) != "" {
			return nil, fmt.Errorf("SKILL.md: %s", problem)
		}
		s.warn("%s; using the folder's name", problem)
		s.Name = dir
	}
	if s.Description == "" {
		return nil, fmt.Errorf("SKILL.md: description: is missing")
	}
	s.Description = s.cut("description", s.Description, MaxDescription)
	s.Compatibility = s.cut("compatibility", s.Compatibility, MaxCompatibility)
	if len(s.Body) > MaxBody {
		return nil, fmt.Errorf("SKILL.md: larger than %d KiB", MaxBody>>10)
	}
	if s.Body == "" {
		s.warn("has no instructions")
	}
	return s, nil
}

// split divides a SKILL.md into front matter and body.
func split(text string) (front, body string, ok bool) {
	text, ok = strings.CutPrefix(text, "---\n")
	if !ok {
		return "", "", false
	}
	if rest, ok := strings.CutPrefix(text, "---\n"); ok {
		return "", rest, true
	}
	if front, body, ok = strings.Cut(text, "\n---\n"); ok {
		return front, body, true
	}
	front, ok = strings.CutSuffix(text, "\n---")
	return front, "", ok
}

func decode(front string) (map[string]any, error) {
	fields := map[string]any{}
	err := yaml.Load([]byte(front), &fields)
	return fields, err
}

// topLevel matches a line that gives a top-level key a plain value.
var topLevel = regexp.MustCompile(`^([A-Za-z_-]+):[ \t]+([^'"|>&*!\[{#\s].*)$`)

// quoteColons puts plain values that contain a colon in quotes.
func quoteColons(front string) (quoted string, changed bool) {
	lines := strings.Split(front, "\n")
	for i, line := range lines {
		if m := topLevel.FindStringSubmatch(line); m != nil && strings.Contains(m[2], ":") {
			lines[i], changed = m[1]+": "+strconv.Quote(strings.TrimSpace(m[2])), true
		}
	}
	return strings.Join(lines, "\n"), changed
}

// CheckFrontMatter reports whether the front matter of a SKILL.md has the same fields and values as a JSON object. A
// server that publishes skills describes each by such an object.
func CheckFrontMatter(raw []byte, want json.RawMessage) error {
	got, err := FrontMatter(raw)
	if err != nil {
		return err
	}
	var a, b any
	if err := cmp.Or(json.Unmarshal(got, &a), json.Unmarshal(want, &b)); err != nil {
		return fmt.Errorf("front matter: %w", err)
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("SKILL.md: front matter differs from its description")
	}
	return nil
}

// FrontMatter returns the front matter of a SKILL.md as a JSON object, with the fields and values as they are written.
func FrontMatter(raw []byte) (json.RawMessage, error) {
	front, _, ok := split(strings.ReplaceAll(strings.TrimPrefix(string(raw), "\ufeff"), "\r\n", "\n"))
	if !ok {
		return nil, fmt.Errorf("SKILL.md: must begin with front matter between two lines of ---")
	}
	var node yaml.Node
	if err := yaml.Load([]byte(front), &node); err != nil {
		return nil, fmt.Errorf("SKILL.md: front matter: %w", err)
	}
	value, err := plain(&node, 0)
	if err != nil {
		return nil, fmt.Errorf("SKILL.md: front matter: %w", err)
	}
	object, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("SKILL.md: front matter: %w", err)
	}
	return object, nil
}

// Format returns a skill as a SKILL.md: the front matter of its Info, and its Body.
func Format(s *Skill) ([]byte, error) {
	front, err := yaml.Dump(struct {
		Name          string            `yaml:"name"`
		Description   string            `yaml:"description"`
		License       string            `yaml:"license,omitempty"`
		Compatibility string            `yaml:"compatibility,omitempty"`
		Metadata      map[string]string `yaml:"metadata,omitempty"`
		AllowedTools  string            `yaml:"allowed-tools,omitempty"`
	}{s.Name, s.Description, s.License, s.Compatibility, s.Metadata, strings.Join(s.AllowedTools, " ")})
	if err != nil {
		return nil, fmt.Errorf("SKILL.md: front matter: %w", err)
	}
	return fmt.Appendf(nil, "---\n%s---\n%s\n", front, s.Body), nil
}

// plain returns a value of YAML as JSON has it. A time stays the text that was written.
func plain(n *yaml.Node, depth int) (any, error) {
	if depth > 32 {
		return nil, fmt.Errorf("nested more than 32 levels deep")
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 1 {
			return plain(n.Content[0], depth)
		}
		return map[string]any{}, nil
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			value, err := plain(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			m[n.Content[i].Value] = value
		}
		return m, nil
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			value, err := plain(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.ScalarNode:
		if n.ShortTag() == "!!timestamp" {
			return n.Value, nil
		}
		var v any
		err := n.Decode(&v)
		return v, err
	}
	return nil, fmt.Errorf("must not contain aliases")
}

func (s *Skill) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// cut limits a text to a number of characters.
func (s *Skill) cut(field, text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	s.warn("%s: longer than %d characters", field, limit)
	return string([]rune(text)[:limit])
}

// fill sets the fields of the front matter.
func (s *Skill) fill(fields map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := fields[key]
		switch key {
		case "name":
			s.Name = s.str(key, value)
		case "description":
			s.Description = strings.Join(strings.Fields(s.str(key, value)), " ")
		case "license":
			s.License = s.str(key, value)
		case "compatibility":
			s.Compatibility = s.str(key, value)
		case "metadata":
			list, ok := value.(map[string]any)
			if !ok {
				s.warn("metadata: must be a map")
				continue
			}
			s.Metadata = map[string]string{}
			for name, v := range list {
				s.Metadata[name] = s.str("metadata."+name, v)
			}
		case "allowed-tools":
			s.AllowedTools = s.patterns(value)
		default:
			s.warn("%s: unknown field", key)
		}
	}
}

func (s *Skill) str(field string, value any) string {
	text, ok := value.(string)
	if !ok {
		s.warn("%s: must be a string", field)
		return fmt.Sprint(value)
	}
	return strings.TrimSpace(text)
}

// patterns reads allowed-tools: patterns between spaces, or leniently a list. A pattern may contain spaces within
// parentheses.
func (s *Skill) patterns(value any) (list []string) {
	if items, ok := value.([]any); ok {
		s.warn("allowed-tools: must be a string with patterns between spaces")
		for _, item := range items {
			list = append(list, fmt.Sprint(item))
		}
		return list
	}
	depth := 0
	return strings.FieldsFunc(s.str("allowed-tools", value), func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return depth <= 0 && (r == ' ' || r == ',' || r == '\n' || r == '\t')
	})
}

// Problem is a mistake in a skill.
type Problem struct {
	// Path is the SKILL.md, relative to the file system.
	Path string
	// Message names the field and the fault.
	Message string
}

func (p Problem) String() string { return p.Path + ": " + p.Message }

// check returns all that is wrong with a SKILL.md by the strict rules for those who write skills.
func check(path, dir string, raw []byte) (problems []Problem) {
	s, err := Parse(dir, raw)
	if err != nil {
		return []Problem{{path, strings.TrimPrefix(err.Error(), "SKILL.md: ")}}
	}
	for _, w := range s.Warnings {
		problems = append(problems, Problem{path, w})
	}
	if bytes.Contains(raw, []byte("\r\n")) {
		problems = append(problems, Problem{path, "has line ends of Windows"})
	}
	return problems
}
