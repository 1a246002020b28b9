// Package memories holds the commands about the memories of sessions, users and groups.
package memories

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/named"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store"
)

// flags are the flags that all commands share.
type flags struct {
	At   stores.Tenanted `embed:""`
	JSON bool            `name:"json" help:"Print JSON: one document; for export, one memory per line, which is the default there."`
}

// Commands are the commands about memories.
type Commands struct {
	Shared flags `embed:""`

	List     listCmd     `cmd:"" help:"List memories, newest first."`
	Search   searchCmd   `cmd:"" help:"Search memories by text, best first."`
	Show     showCmd     `cmd:"" help:"Show one memory."`
	History  historyCmd  `cmd:"" help:"List the versions of a memory, oldest first."`
	Add      addCmd      `cmd:"" help:"Add a memory."`
	Correct  correctCmd  `cmd:"" help:"Add a newer version of a memory."`
	Forget   forgetCmd   `cmd:"" help:"Delete memories with all their versions, and the facts taken from them."`
	Redact   redactCmd   `cmd:"" help:"Remove the text of one version of a memory, and keep its place in the history."`
	Promote  promoteCmd  `cmd:"" help:"Make a quarantined memory active."`
	Export   exportCmd   `cmd:"" help:"Print all memories as JSON Lines, oldest first."`
	Import   importCmd   `cmd:"" help:"Add memories that export has printed."`
	Reindex  reindexCmd  `cmd:"" help:"Index memories by another analyzer."`
	Drop     dropCmd     `cmd:"" help:"Delete all memories of a user, session or group."`
	Scopes   scopesCmd   `cmd:"" help:"List the sessions, users and groups that have memories."`
	Entities entitiesCmd `cmd:"" help:"List the entities and speakers of memories."`
	Sources  sourcesCmd  `cmd:"" help:"Count memories by their sources."`
}

// Help returns the details for --help.
func (Commands) Help() string {
	return `Each command but scopes needs one of --user, --session and --group. ID is the whole id of a memory.

Searches are by text only: the command has no embedder. It uses the analyzer by which the memories are indexed.`
}

// AfterApply binds the shared flags for each command.
func (c *Commands) AfterApply(k *kong.Context) error {
	k.Bind(&c.Shared)
	return nil
}

// scoped are the flags that name the owner of memories.
type scoped struct {
	User    string `placeholder:"NAME" required:"" xor:"scope" help:"The memories of this user."`
	Session string `placeholder:"ID" required:"" xor:"scope" help:"The memories of this session, by its id or the beginning of it."`
	Group   string `placeholder:"NAME" required:"" xor:"scope" help:"The memories of this group."`
}

// opened is a memory and the scope in it that a command is about.
type opened struct {
	*memory.Memory
	store store.Store
	scope memory.Scope
	owner string // for messages, such as "user ada"
}

// read calls do with the memory in the store and the scope that the flags name. do uses no analyzer: it may read entries,
// but not search or change them.
func (s *scoped) read(a *cli.App, all *flags, do func(context.Context, *opened) error) error {
	err := all.At.InspectStore(a, func(ctx context.Context, st store.Importer, eng *engine.Engine) (err error) {
		o := &opened{store: st}
		if o.scope, o.owner, err = s.scope(ctx, all, eng); err != nil {
			return err
		}
		if o.Memory, err = memory.New(st, &options); err != nil {
			return err
		}
		return do(ctx, o)
	})
	return flagged(err)
}

// open is read for a do that may search and change entries.
func (s *scoped) open(a *cli.App, all *flags, do func(context.Context, *opened) error) error {
	return s.read(a, all, func(ctx context.Context, o *opened) error {
		if err := o.analyze(ctx); err != nil {
			return err
		}
		return do(ctx, o)
	})
}

// options are those of all commands. They have no limit of entries: only the agents' options say which are too many.
var options = memory.Options{MaxEntries: -1}

// analyzers are those that the command has.
var analyzers = []memory.Analyzer{memory.English(), memory.Simple(), memory.Bigrams()}

// analyze sets the analyzer to the one by which the scope is indexed. The error is ErrUnavailable if this program does not
// have it.
func (o *opened) analyze(ctx context.Context) error {
	by, err := o.IndexedBy(ctx, o.scope)
	if err != nil || by == "" || by == o.Options().Analyzer.Name() {
		return err
	}
	for _, a := range analyzers {
		if a.Name() == by {
			own := options
			own.Analyzer = a
			o.Memory, err = memory.New(o.store, &own)
			return err
		}
	}
	return cairn.Errorf(cairn.ErrUnavailable, "memories of %s are indexed by the analyzer %q, which this program does not have", o.owner, by)
}

// scope returns the scope that the flags name, and its owner.
func (s *scoped) scope(ctx context.Context, all *flags, eng *engine.Engine) (scope memory.Scope, owner string, err error) {
	flag, name := "--user", s.User
	switch {
	case s.Session != "":
		flag, name = "--session", s.Session
	case s.Group != "":
		flag, name = "--group", s.Group
	case s.User == "":
		return scope, "", cli.Misuse("--user, --session or --group: the name is empty")
	}
	if name, err = all.At.ID(flag, name); err != nil {
		return scope, "", err
	}
	switch flag {
	case "--user":
		scope = memory.User(name)
	case "--group":
		scope = memory.Group(name)
	default:
		if name, err = named.Session(ctx, eng, name); err != nil {
			return scope, "", err
		}
		row, err := eng.Session(ctx, name)
		if err != nil {
			return scope, "", err
		}
		scope = memory.Session(row.ID, row.Incarnation)
	}
	if err := scope.Check(); err != nil {
		return scope, "", cli.Misuse("%s: %s", flag, strings.TrimPrefix(err.Error(), "scope.name: "))
	}
	return scope, string(scope.Kind) + " " + name, nil
}

// flagOf has the flags of an entry's fields whose names differ by more than hyphens. The text is an argument.
var flagOf = map[string]string{"keys": "--key", "source.kind": "--source", "expires_at": "--expires", "text": "text"}

// queried are the fields of queries that flags of the same name set.
var queried = []string{"kind", "source", "state", "limit", "cursor", "session"}

// flagged returns an error about a field as one about the flag or argument that sets it.
func flagged(err error) error {
	var e *cairn.Error
	if !errors.As(err, &e) {
		return err
	}
	field, ofEntry := strings.CutPrefix(e.Field, "entries[0].")
	if !ofEntry && !slices.Contains(queried, field) {
		return err
	}
	field, _, _ = strings.Cut(field, "[")
	flag := flagOf[field]
	if flag == "" {
		flag = "--" + strings.ReplaceAll(field, "_", "-")
	}
	own := *e
	own.Message = flag + ": " + strings.TrimPrefix(e.Message, e.Field+": ")
	return &own
}
