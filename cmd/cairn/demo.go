package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/shop"
	"github.com/cairn-agents/cairn/cmd/cairn/support"
	"github.com/cairn-agents/cairn/engine"
)

// leaseTTL is short, so that a demo that was killed goes on a moment after it is started again.
const leaseTTL = 3 * time.Second

// modelFlags say which model answers.
type modelFlags struct {
	Model string         `placeholder:"MODEL" default:"${model}" help:"scripted, or openai:NAME for any server that speaks Chat Completions (OPENAI_BASE_URL, OPENAI_API_KEY). Default: openai:$$OPENAI_MODEL, or openai:gpt-5-mini, if one of those two is set, else scripted."`
	Pace  *time.Duration `placeholder:"DURATION" help:"Time the scripted model takes for a word. Default: 30ms on a terminal, else none."`
}

// usualModel answers where there is a key or a server but no name of a model.
const usualModel = "gpt-5-mini"

// defaultModel returns the model that the environment asks for: a provider's, if there is a key or a base URL.
func defaultModel(env func(string) string) string {
	if env("OPENAI_BASE_URL") == "" && env("OPENAI_API_KEY") == "" {
		return "scripted"
	}
	return "openai:" + orElse(env("OPENAI_MODEL"), usualModel)
}

// pick returns the model that the flags name.
func (f modelFlags) pick(a *app) (cairn.Model, error) {
	provider, name, _ := strings.Cut(f.Model, ":")
	switch {
	case f.Pace != nil && *f.Pace < 0:
		return nil, misuse("--pace: %s is negative", *f.Pace)
	case f.Model == "scripted":
		pace := time.Duration(0)
		if f.Pace != nil {
			pace = *f.Pace
		} else if isTerminal(a.stdout) {
			pace = 30 * time.Millisecond
		}
		return support.Script(pace), nil
	case provider == "openai" && name != "":
		return openaiModel(name, a.env("OPENAI_BASE_URL"), a.env("OPENAI_API_KEY"))
	}
	return nil, misuse("--model: %q is neither scripted nor openai:NAME", f.Model)
}

// desk is the support agent with all it needs: its sessions, its shop and an engine.
type desk struct {
	at    *address
	model cairn.ModelInfo
	store opened
	shop  *shop.Shop
	eng   *engine.Engine
}

// deskFlags say where the desk's sessions and orders are, and which model answers.
type deskFlags struct {
	storeFlags
	modelFlags
	Shop string `placeholder:"PATH" help:"SQLite file of the shop's orders. Default: beside the file of the sessions, else cairn-demo-shop.db in the current directory."`
}

// openDesk opens the databases, making what is missing. change may set options of the engine; nil leaves them.
func openDesk(ctx context.Context, a *app, flags deskFlags, change func(*engine.Options)) (*desk, error) {
	at, err := flags.address(a)
	if err != nil {
		return nil, err
	}
	model, err := flags.pick(a)
	if err != nil {
		return nil, err
	}
	d := &desk{at: at, model: model.Info()}
	if d.store, err = at.open(ctx, a); err != nil {
		return nil, err
	}
	if d.shop, err = shop.Open(ctx, orElse(flags.Shop, at.shopPath()), a.engine.Now); err != nil {
		return nil, errors.Join(err, d.store.Close())
	}
	opts := a.engine
	opts.LeaseTTL = leaseTTL
	if change != nil {
		change(&opts)
	}
	if d.eng, err = engine.New(d.store, []*cairn.Agent{support.Agent(d.shop, model)}, &opts); err != nil {
		return nil, errors.Join(err, d.shop.Close(), d.store.Close())
	}
	return d, nil
}

// close gives runs a little time to come to their end; the others stay where they stand, to be taken up later.
func (d *desk) close(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := d.eng.Close(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, d.shop.Close(), d.store.Close())
}

// defaultSession is the session that the demo begins or goes on with if no other is named.
const defaultSession = "demo"

type demoCmd struct {
	deskFlags
	Session string `default:"${session}" help:"Session to begin or go on with. Default: demo."`
	User    string `help:"Who the customer is: the first name, as in ada, is enough."`
	Yes     bool   `short:"y" help:"Approve every refund without asking."`
}

// grace is how long an answer may go on once the process was asked to end.
const grace = 2 * time.Second

// Run talks until the input ends.
func (cmd *demoCmd) Run(a *app) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	if err := cairn.CheckSessionID(cmd.Session); err != nil {
		return err
	}
	d, err := openDesk(ctx, a, cmd.deskFlags, nil)
	if err != nil {
		return err
	}
	c := newChat(a, d, cmd.Session, interrupts)
	c.user, c.yes = cmd.User, cmd.Yes
	defer func() { err = errors.Join(err, d.close(ctx, c.patience())) }()
	model := d.model.Name
	if d.model.Provider != model {
		model = d.model.Provider + ":" + model
	}
	c.screen.note(fmt.Sprintf("Session %q in %s, model %s.", cmd.Session, d.at, model))
	if d.model.Name == usualModel && a.env("OPENAI_MODEL") == "" {
		c.screen.note("Set OPENAI_MODEL, or give --model openai:NAME, to have another model answer.")
	}
	return c.talk(ctx)
}
