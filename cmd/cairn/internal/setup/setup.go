// Package setup opens the support agent with all it needs: sessions, the shop, a model, an engine and a host. The
// demo and the worker use it. It prints nothing.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/hosts"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// leaseTTL is short, so that a killed demo resumes a moment after it is started again.
const leaseTTL = 3 * time.Second

// Setup is the support agent with all it needs: its sessions, its shop and an engine.
type Setup struct {
	At    *stores.Address
	Host  *hosts.Address // nil for none
	Model cairn.ModelInfo
	store store.Importer
	Shop  *shop.Shop
	Eng   *engine.Engine

	Hosting *hosts.Connection // nil without a host
	pick    func(name string) (cairn.Model, error)
	servers []cairn.Toolset // MCP servers
	closing []func() error  // closers of the servers
}

// Options are what commands open a desk with.
type Options struct {
	Serve bool          // this process executes the effects of runs on a host
	Drain time.Duration // how long they may take to finish when the process ends
	// Logger is the engine's logger, Warnings the host's; nil is silent.
	Logger, Warnings *slog.Logger
	Hooks            []*cairn.Hooks
}

// Open connects to the host, if there is one, and opens the databases, creating what is missing.
func Open(ctx context.Context, a *cli.App, flags Flags, own Options) (_ *Setup, err error) {
	d := &Setup{}
	if d.At, err = flags.At.Address(a.Env); err != nil {
		return nil, err
	}
	if d.Host, err = flags.On.Address(a.Env); err != nil {
		return nil, err
	}
	if d.Host == nil && !own.Serve {
		return nil, cli.Misuse("--no-serve: requires --host")
	}
	d.pick = func(name string) (cairn.Model, error) { return flags.Answers.pick(a, name) }
	model, err := d.pick(flags.Answers.Model)
	if err != nil {
		return nil, err
	}
	d.Model = model.Info()
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close(ctx, 0))
		}
	}()
	opts := a.Engine
	opts.LeaseTTL, opts.Logger, opts.Hooks = cmp.Or(a.Engine.LeaseTTL, leaseTTL), own.Logger, own.Hooks
	if d.Host != nil {
		warnings := own.Warnings
		if warnings == nil {
			warnings = slog.New(slog.DiscardHandler)
		}
		reaching, cancel := context.WithTimeout(ctx, cmp.Or(a.Reach, hosts.Reach))
		defer cancel()
		if d.Hosting, err = d.Host.Connect(reaching, a.Env, flags.On.Executor, own.Drain, warnings); err != nil {
			return nil, err
		}
		opts.LeaseTTL, opts.Host = cmp.Or(a.Engine.LeaseTTL, hosts.Lease), d.Hosting.Host
	}
	st, err := d.At.Open(ctx, a.Engine.Now)
	if err != nil {
		return nil, err
	}
	d.store = st
	if d.Shop, err = shop.Open(ctx, cmp.Or(flags.Shop, shopPath(d.At)), a.Engine.Now); err != nil {
		return nil, err
	}
	if d.servers, d.closing, err = servers(flags.MCP, own.Logger); err != nil {
		return nil, err
	}
	if d.Eng, err = engine.New(d.store, []*cairn.Agent{d.agent(model)}, &opts); err != nil {
		return nil, err
	}
	if d.Hosting != nil && own.Serve {
		if err = d.Hosting.Serve(d.Eng); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Host.Given, err)
		}
	}
	return d, nil
}

// shopPath returns the default path of the demo's shop: next to the file of sessions, else in the current
// directory.
func shopPath(at *stores.Address) string {
	db := cmp.Or(at.File(), stores.DefaultFile)
	ext := filepath.Ext(db)
	return strings.TrimSuffix(db, ext) + "-shop" + ext
}

// Close closes what is open. It gives runs, or the effects that this process executes for a host, until grace to
// finish their step. The others are left as they are. Either are resumed later, or by another process.
func (d *Setup) Close(ctx context.Context, grace time.Duration) (err error) {
	ctx = context.WithoutCancel(ctx)
	if d.Hosting != nil && d.Hosting.Rest != nil {
		d.Hosting.Rest()
	}
	if d.Eng != nil {
		closing, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		if err = d.Eng.Drain(closing); errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
	}
	for _, closing := range d.closing {
		err = errors.Join(err, closing())
	}
	if d.Hosting != nil {
		closing, cancel := context.WithTimeout(ctx, hosts.Reach)
		defer cancel()
		if failed := d.Hosting.Close(closing); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", d.Host.Given, failed))
		}
	}
	if d.Shop != nil {
		err = errors.Join(err, d.Shop.Close())
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	return err
}
