package workspace

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// interpreter runs code.
type interpreter struct {
	program string
	args    []string
	suffix  string
}

// interpreters are the known ones, by name.
var interpreters = map[string]interpreter{
	"sh":      {"sh", nil, ".sh"},
	"bash":    {"bash", nil, ".sh"},
	"python3": {"python3", nil, ".py"},
	"node":    {"node", nil, ".js"},
	"ruby":    {"ruby", nil, ".rb"},
	"perl":    {"perl", nil, ".pl"},
	"go":      {"go", []string{"run"}, ".go"},
}

// Interpreters returns the names that [Options].Interpreters may have.
func Interpreters() []string { return slices.Sorted(maps.Keys(interpreters)) }

// findInterpreters returns an ErrInvalid error if commands cannot find an interpreter.
func findInterpreters(provider Provider, o *Options) error {
	for _, name := range o.Interpreters {
		if _, ok := interpreters[name]; !ok {
			return cairn.Invalid("interpreters", "unknown interpreter %q: want one of %s", name, strings.Join(Interpreters(), ", "))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	dir, err := provider.Open(ctx, strings.Repeat("0", 32))
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range o.Interpreters {
		m := &o.Manifest
		out := &output{limit: 1000}
		p, err := dir.(Runner).Start(ctx, Command{Args: []string{"/bin/sh", "-c", "command -v " + interpreters[name].program}, Dir: ".", Output: out,
			Environment: m.environment(), Mounts: m.Mounts})
		if err != nil {
			return cairn.Errorf(cairn.ErrInvalid, "interpreters: %w", err)
		}
		stop := context.AfterFunc(ctx, p.Kill)
		status, err := p.Wait()
		stop()
		if err != nil {
			return cairn.Errorf(cairn.ErrInvalid, "interpreters: %w", err)
		}
		if status != 0 {
			return cairn.Invalid("interpreters", "commands do not find %q", name)
		}
	}
	return nil
}
