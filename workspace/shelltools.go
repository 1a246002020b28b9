package workspace

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// shelling are the arguments of the shell.
type shelling struct {
	Command    string `json:"command" jsonschema:"The command line, for /bin/sh." schema:"minLength=1"`
	Dir        string `json:"dir,omitempty" jsonschema:"The directory to run it in. Default: the root of the workspace."`
	Seconds    int    `json:"seconds,omitempty" jsonschema:"How long the command may take." schema:"min=1"`
	Background bool   `json:"background,omitempty" jsonschema:"Return at once while the command runs on, such as a server."`
}

// shellTool runs command lines.
func (w *Workspace) shellTool(p pinned) cairn.Tool {
	l := &w.opts.Limits
	text := fmt.Sprintf("Run a command line in the workspace, which is %s. Each call begins a new shell, in a sandbox. %s A command may take %s, or up to %s if the call says so.",
		w.info.Root, w.info.Limits, l.Time, l.MaxTime)
	if l.Background > 0 {
		text += fmt.Sprintf(" Up to %d commands may run in the background, for %s each.", l.Background, l.BackgroundTime)
	}
	options := []cairn.ToolOption{}
	if len(w.approve) > 0 {
		options = append(options, cairn.RequireApprovalIf(func(_ context.Context, _ *cairn.Call, in shelling) (*cairn.Prompt, error) {
			return w.approval(in.Command), nil
		}))
	}
	return newTool(w, "shell", text, true, p, w.shell, options...)
}

// approval returns the reason for the approval of a command; nil if it needs none.
func (w *Workspace) approval(command string) *cairn.Prompt {
	if !slices.ContainsFunc(w.approve, func(re *regexp.Regexp) bool { return re.MatchString(command) }) {
		return nil
	}
	return &cairn.Prompt{Text: "Run this command: " + command}
}

func (w *Workspace) shell(ctx context.Context, v *visit, in shelling) (string, error) {
	dir, err := v.workDir(in.Dir)
	if err != nil {
		return "", err
	}
	most, err := w.timeOf(in.Seconds)
	if err != nil {
		return "", err
	}
	out := &output{limit: v.limits.Output}
	c := v.command(out, dir, "/bin/sh", "-c", in.Command)
	if in.Background {
		b, err := v.launch(ctx, in.Command, c, out)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("The command runs in the background as %q.", b.id), nil
	}
	return v.report(ctx, c, out, most)
}

// report runs a command, and returns its output and how it has ended.
func (v *visit) report(ctx context.Context, c Command, out *output, most time.Duration) (string, error) {
	e, err := v.run(ctx, c, out, most)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(out.text(), "\n")
	switch {
	case e.status != 0:
		return strings.TrimLeft(text+"\n["+e.String()+"]", "\n"), nil
	case text == "":
		return "(no output)", nil
	}
	return text, nil
}

// workDir returns the directory of a command.
func (v *visit) workDir(name string) (string, error) {
	if name == "" {
		return ".", nil
	}
	dir, err := cleanPath(v.info.Root, name)
	if err != nil || dir == "." {
		return dir, err
	}
	e, err := v.dir.Stat(dir)
	if err != nil {
		return "", err
	}
	if e.Kind == File || e.Kind == Special {
		return "", cairn.Invalid("dir", "%q is not a directory", name)
	}
	return dir, nil
}

// timeOf returns how long a command may take.
func (w *Workspace) timeOf(seconds int) (time.Duration, error) {
	l := &w.opts.Limits
	if seconds == 0 {
		return l.Time, nil
	}
	if seconds > int(l.MaxTime/time.Second) {
		return 0, cairn.Invalid("seconds", "%d is more than %d", seconds, int(l.MaxTime/time.Second))
	}
	return time.Duration(seconds) * time.Second, nil
}

// running are the arguments of the tool that runs code.
type running struct {
	Language string `json:"language" jsonschema:"The interpreter."`
	Code     string `json:"code" jsonschema:"The source text." schema:"minLength=1"`
	Seconds  int    `json:"seconds,omitempty" jsonschema:"How long it may take." schema:"min=1"`
}

// runTool runs code.
func (w *Workspace) runTool(p pinned) cairn.Tool {
	text := fmt.Sprintf("Run a program of source text, in the root of the workspace and in a sandbox. Languages: %s. %s", strings.Join(w.opts.Interpreters, ", "), w.info.Limits)
	options := []cairn.ToolOption{}
	if len(w.approve) > 0 {
		options = append(options, cairn.RequireApprovalIf(func(_ context.Context, _ *cairn.Call, in running) (*cairn.Prompt, error) {
			return w.approval(in.Code), nil
		}))
	}
	return newTool(w, "run", text, true, p, func(ctx context.Context, v *visit, in running) (string, error) {
		if !slices.Contains(w.opts.Interpreters, in.Language) {
			return "", cairn.Invalid("language", "unknown language %q: want one of %s", in.Language, strings.Join(w.opts.Interpreters, ", "))
		}
		most, err := w.timeOf(in.Seconds)
		if err != nil {
			return "", err
		}
		i := interpreters[in.Language]
		file := homePath + "/main" + i.suffix
		args := append([]string{"/bin/sh", "-c", `cat >"$0" && exec "$@" "$0" </dev/null`, file, i.program}, i.args...)
		out := &output{limit: v.limits.Output}
		c := v.command(out, ".", args...)
		c.Input = bytes.Clone([]byte(in.Code))
		return v.report(ctx, c, out, most)
	}, options...)
}
