package stores

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// DefaultFile is where the demo keeps its sessions, so that other commands find them without a flag.
const DefaultFile = "cairn-demo.db"

// Flags select where sessions are.
type Flags struct {
	Store string `placeholder:"URL" xor:"store" help:"The store: postgres://HOST/DATABASE?schema=NAME, redis://HOST/0?prefix=NAME, do://HOST/STORE, sqlite:PATH or PATH. Default: CAIRN_STORE, else CAIRN_DB, else cairn-demo.db in the current directory."`
	DB    string `name:"db" placeholder:"PATH" xor:"store" help:"Short for --store sqlite:PATH."`
}

// Address returns the store that the flags name, or else the environment.
func (f Flags) Address(env map[string]string) (*Address, error) {
	switch {
	case f.Store != "":
		return Parse("--store", f.Store)
	case f.DB != "":
		return parseFile("--db", f.DB)
	case env["CAIRN_STORE"] != "":
		return Parse("CAIRN_STORE", env["CAIRN_STORE"])
	case env["CAIRN_DB"] != "":
		return parseFile("CAIRN_DB", env["CAIRN_DB"])
	}
	return parseFile("--db", DefaultFile)
}

// Inspect calls do with an engine without agents on a store that must exist. The engine can show, change and stop
// sessions, but not run them.
func (f Flags) Inspect(a *cli.App, do func(context.Context, *engine.Engine) error) error {
	return f.InspectStore(a, func(ctx context.Context, _ store.Importer, eng *engine.Engine) error { return do(ctx, eng) })
}

// InspectStore is [Flags.Inspect] with the store itself, for data beside sessions.
func (f Flags) InspectStore(a *cli.App, do func(context.Context, store.Importer, *engine.Engine) error) (err error) {
	at, err := f.Address(a.Env)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilStopped()
	defer stop()
	st, err := at.OpenExisting(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	eng, err := engine.New(st, nil, &a.Engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close(context.WithoutCancel(ctx))) }()
	return do(ctx, st, eng)
}
