package assistants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/store"
)

// Each version of an assistant is a record in namespace, under the key NAME/NUMBER. One record in changed gets a
// new version whenever any of them changes, so that a process detects changes with a single read.
const (
	namespace = "cairn/assistants"
	changed   = "cairn/assistants/changed"
)

// Catalog holds the definitions of assistants in a store. It is safe for concurrent use by any number of processes.
type Catalog struct {
	Records store.Records
	Logger  *slog.Logger
}

func key(v version) string { return fmt.Sprintf("%s/%010d", v.name, v.number) }

// Publish makes definitions the latest of their assistants. A definition that is the latest already gets no new
// version.
func (c *Catalog) Publish(ctx context.Context, list []config.Assistant) error {
	latest := map[string]int{}
	for _, a := range inOrder(list) {
		d := &Definition{Assistant: a}
		for i := range a.Tools {
			if sub := a.Tools[i].Agent; sub != "" {
				if d.Agents == nil {
					d.Agents = map[string]int{}
				}
				d.Agents[sub] = latest[sub]
			}
		}
		n, err := c.publish(ctx, d)
		if err != nil {
			return err
		}
		latest[a.Name] = n
	}
	_, err := c.Records.Put(ctx, store.RecordWrite{Namespace: changed, Key: "changed", Value: json.RawMessage("true"), Seen: store.AnyVersion})
	return err
}

// publish writes a definition unless it is the latest, and returns the number of its version. If several processes
// write the same definition concurrently, one of them does.
func (c *Catalog) publish(ctx context.Context, d *Definition) (int, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return 0, err
	}
	for {
		known := map[version]*Definition{}
		if err := c.read(ctx, d.Name, known); err != nil {
			return 0, err
		}
		n := 0
		for v := range known {
			if v.name == d.Name {
				n = max(n, v.number)
			}
		}
		if n > 0 && known[version{d.Name, n}].same(d) {
			return n, nil
		}
		_, err := c.Records.Put(ctx, store.RecordWrite{Namespace: namespace, Key: key(version{d.Name, n + 1}), Value: raw})
		if !errors.Is(err, cairn.ErrStale) { // otherwise another process was faster
			return n + 1, err
		}
	}
}

// read adds to into the versions of an assistant and of its sub-agents.
func (c *Catalog) read(ctx context.Context, name string, into map[version]*Definition) error {
	prefix := name + "/"
	var below []string
	for r, err := range store.All(func(cursor string) (store.Page[store.Record], error) {
		return c.Records.List(ctx, store.RecordQuery{Namespace: namespace, Prefix: prefix, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(strings.TrimPrefix(r.Key, prefix))
		d := &Definition{}
		if err == nil {
			err = json.Unmarshal(r.Value, d)
		}
		if err != nil {
			return cairn.Errorf(cairn.ErrCorrupt, "assistant record %q: %w", r.Key, err)
		}
		into[version{name, n}] = d
		for sub, at := range d.Agents {
			if into[version{sub, at}] == nil {
				below = append(below, sub)
			}
		}
	}
	for _, sub := range below {
		if err := c.read(ctx, sub, into); err != nil {
			return err
		}
	}
	return nil
}

// Set is the part of a catalog that a process serves.
type Set struct {
	// Agents are all versions of the assistants, for engine.Replace. The latest version of each comes last.
	Agents []*cairn.Agent
	// Latest holds the latest definitions by name, Numbers the numbers of their versions.
	Latest  map[string]*Definition
	Numbers map[string]int
}

// Load returns the named assistants with all their versions. An earlier version that cannot be built any more, for
// example because its provider is not configured, is logged and omitted: its runs continue with the latest version.
func (c *Catalog) Load(ctx context.Context, names []string, parts Parts) (*Set, error) {
	b := &builder{Parts: parts, known: map[version]*Definition{}, made: map[version]*cairn.Agent{}}
	for _, name := range names {
		if err := c.read(ctx, name, b.known); err != nil {
			return nil, err
		}
	}
	set := &Set{Latest: map[string]*Definition{}, Numbers: map[string]int{}}
	for _, name := range names {
		list := b.versions(name)
		for i, v := range list {
			a, err := b.agent(v)
			if err != nil {
				if i == len(list)-1 {
					return nil, err
				}
				c.Logger.Warn("cannot serve an earlier version of an assistant", "assistant", name, "version", v.number, "error", err)
				continue
			}
			set.Agents = append(set.Agents, a)
			set.Latest[name], set.Numbers[name] = b.known[v], v.number
		}
	}
	return set, nil
}

// Changed returns a number that changes with each call of Publish in any process; 0 before the first call.
func (c *Catalog) Changed(ctx context.Context) (int64, error) {
	r, err := c.Records.Get(ctx, changed, "changed")
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return r.Version, nil
}
