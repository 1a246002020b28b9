package skill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

const (
	// defaultLines and maxLines are how many lines of a file the model reads at once.
	defaultLines, maxLines = 400, 2000
	// maxRead limits the bytes of them.
	maxRead = 64 << 10
)

// Tools implements [cairn.Toolset].
func (s *Set) Tools(pinned json.RawMessage) ([]cairn.Tool, error) {
	o, err := decodeOffer(pinned)
	if err != nil || len(o.Skills) == 0 {
		return nil, err
	}
	names := make([]string, len(o.Skills))
	for i, e := range o.Skills {
		names[i] = e.Name
	}
	name := map[string]any{"type": "string", "enum": names, "description": "The name of the skill."}
	load, err := schemaOf(map[string]any{"name": name}, "name")
	if err != nil {
		return nil, err
	}
	read, err := schemaOf(map[string]any{
		"skill": name,
		"path":  map[string]any{"type": "string", "description": "The path of the file, relative to the skill's folder."},
		"line":  map[string]any{"type": "integer", "minimum": 1, "description": "The first line to read. Default: 1."},
		"lines": map[string]any{"type": "integer", "minimum": 1, "maximum": maxLines, "description": fmt.Sprintf("How many lines to read. Default: %d.", defaultLines)},
	}, "skill", "path")
	if err != nil {
		return nil, err
	}
	return []cairn.Tool{
		cairn.RawFunc(LoadTool, "Load the instructions of a skill.", load, func(ctx context.Context, call *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
			return s.load(ctx, call, input, o)
		}),
		cairn.RawFunc(ReadTool, "Read lines of a text file of a skill.", read, func(ctx context.Context, _ *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
			return s.read(ctx, input, o)
		}),
	}, nil
}

func schemaOf(properties map[string]any, required ...string) (json.RawMessage, error) {
	return json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

// heading is the first line of a skill's text. It identifies the version of the instructions.
func (s *Skill) heading() string { return fmt.Sprintf("Skill %s (%s)\n", s.Name, digest(s.Body)) }

// text returns a skill as the model reads it.
func (s *Skill) text() string {
	var b strings.Builder
	b.WriteString(s.heading())
	if s.Origin != "" {
		fmt.Fprintf(&b, "From %s, not from the user or the operator.\n", s.Origin)
	}
	b.WriteString("\n" + s.Body)
	if len(s.Files) > 0 {
		fmt.Fprintf(&b, "\n\nFiles of the skill, to be read with %s:", ReadTool)
		for _, f := range s.Files {
			fmt.Fprintf(&b, "\n- %s (%d bytes)", f.Path, f.Size)
		}
		if len(s.Files) == maxFiles {
			b.WriteString("\n- and others")
		}
	}
	return b.String()
}

// load is the function of LoadTool.
func (s *Set) load(ctx context.Context, call *cairn.Call, input json.RawMessage, pinned *offer) (json.RawMessage, error) {
	var in struct{ Name string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, cairn.Errorf(cairn.ErrArguments, "arguments: %w", err)
	}
	sk, err := s.skills.Load(ctx, in.Name)
	if err != nil {
		return nil, unusable(err, "skill %q", in.Name)
	}
	if e := pinned.find(in.Name); e != nil && e.Digests != nil && sk.Digest != e.Digests[manifest] {
		return nil, changed(in.Name)
	}
	text := sk.text()
	for _, l := range pinned.Loaded {
		if l.Name == in.Name && l.Text == text {
			return json.Marshal(fmt.Sprintf("The skill %s is already loaded: its instructions are with the list of skills.", in.Name))
		}
	}
	for _, r := range call.Results(LoadTool) {
		var earlier string
		if !r.IsError && json.Unmarshal(r.Output, &earlier) == nil && strings.HasPrefix(earlier, sk.heading()) {
			return json.Marshal(fmt.Sprintf("The skill %s is already loaded: follow its instructions above.", in.Name))
		}
	}
	if err := switchOn(call, sk.AllowedTools); err != nil {
		return nil, err
	}
	if err := define.Publish(call, cairn.EventSkillLoaded, in.Name, ""); err != nil {
		return nil, err
	}
	return json.Marshal(text)
}

// switchOn switches on those of the agent's tools that are off and that a pattern names.
func switchOn(call *cairn.Call, patterns []string) error {
	on := map[string]bool{}
	for _, name := range define.SwitchedOff(call) {
		for _, p := range patterns {
			p, _, _ = strings.Cut(p, "(")
			if ok, err := path.Match(p, name); err == nil && ok {
				on[name] = true
			}
		}
	}
	if len(on) == 0 {
		return nil
	}
	return call.SwitchTools(on)
}

// read is the function of ReadTool.
func (s *Set) read(ctx context.Context, input json.RawMessage, pinned *offer) (json.RawMessage, error) {
	in := struct {
		Skill, Path string
		Line, Lines int
	}{Line: 1, Lines: defaultLines}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, cairn.Errorf(cairn.ErrArguments, "arguments: %w", err)
	}
	file := path.Clean(in.Path)
	if !fs.ValidPath(file) || file == "." {
		return nil, cairn.Errorf(cairn.ErrArguments, "path: must be a path within the skill's folder, got %q", in.Path)
	}
	e := pinned.find(in.Skill)
	if e != nil && e.Digests != nil && e.Digests[file] == "" {
		return nil, unusable(fs.ErrNotExist, "file %q of skill %q", file, in.Skill)
	}
	raw, err := s.skills.ReadFile(ctx, in.Skill, file)
	if err != nil {
		return nil, unusable(err, "file %q of skill %q", file, in.Skill)
	}
	if e != nil && e.Digests != nil && e.Digests[file] != Digest(raw) {
		return nil, changed(in.Skill)
	}
	if !utf8.Valid(raw) || strings.ContainsRune(string(raw), 0) {
		return nil, cairn.Errorf(cairn.ErrArguments, "path: %q is not a text file (%d bytes)", file, len(raw))
	}
	text, err := excerpt(file, string(raw), in.Line, in.Lines)
	if err != nil {
		return nil, err
	}
	return json.Marshal(text)
}

// excerpt returns lines of a text under a heading that says which they are.
func excerpt(file, text string, from, count int) (string, error) {
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	if from > len(lines) {
		return "", cairn.Errorf(cairn.ErrArguments, "line: %q has %d lines", file, len(lines))
	}
	size, to := 0, from-1
	for to < min(from-1+count, len(lines)) && (to == from-1 || size+len(lines[to]) <= maxRead) {
		size += len(lines[to]) + 1
		to++
	}
	out := strings.Join(lines[from-1:to], "\n")
	if len(out) > maxRead {
		out = strings.ToValidUTF8(out[:maxRead], "") + "\n(The line is longer.)"
	}
	if from == 1 && to == len(lines) {
		return out, nil
	}
	return fmt.Sprintf("Lines %d to %d of %d of %s:\n%s", from, to, len(lines), file, out), nil
}

// changed is the error of a skill whose digests differ from the pinned ones.
func changed(name string) error {
	return cairn.Errorf(cairn.ErrStale, "skill %q has changed; its new version is available from the next turn on", name)
}

// unusable returns an error for the model. What a file system says of its own paths is not for it.
func unusable(err error, format string, args ...any) error {
	subject := fmt.Sprintf(format, args...)
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cairn.Errorf(cairn.ErrNotFound, "%s not found", subject)
	case errors.As(err, &at):
		return &cairn.Error{Code: cairn.ErrArguments, Message: fmt.Sprintf("cannot read %s: %v", subject, at.Err), Cause: err}
	}
	return fmt.Errorf("%s: %w", subject, err)
}
