package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
func defaultModel(env environment) string {
	if env["OPENAI_BASE_URL"] == "" && env["OPENAI_API_KEY"] == "" {
		return "scripted"
	}
	return "openai:" + orElse(env["OPENAI_MODEL"], usualModel)
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
		return openaiModel(name, a.env["OPENAI_BASE_URL"], a.env["OPENAI_API_KEY"])
	}
	return nil, misuse("--model: %q is neither scripted nor openai:NAME", f.Model)
}

// desk is the support agent with all it needs: its sessions, its shop and an engine.
type desk struct {
	at    *address
	host  *hostAddress // nil for none
	model cairn.ModelInfo
	store opened
	shop  *shop.Shop
	eng   *engine.Engine

	hosting *hosting // nil without a host
}

// deskFlags say where the desk's sessions and orders are, what drives its runs, and which model answers.
type deskFlags struct {
	storeFlags
	hostFlags
	modelFlags
	Shop string `placeholder:"PATH" help:"SQLite file of the shop's orders. Default: beside the file of the sessions, else cairn-demo-shop.db in the current directory."`
}

// deskOptions are what commands open a desk with.
type deskOptions struct {
	serve bool          // this process carries out what runs on a host ask for
	drain time.Duration // how long that may go on when the process ends
	// logger hears of the engine, warnings of the host; nil is silent.
	logger, warnings *slog.Logger
	hooks            []*cairn.Hooks
}

// openDesk connects to the host, if there is one, and opens the databases, making what is missing.
func openDesk(ctx context.Context, a *app, flags deskFlags, own deskOptions) (_ *desk, err error) {
	d := &desk{}
	if d.at, err = flags.storeFlags.address(a); err != nil {
		return nil, err
	}
	if d.host, err = flags.hostFlags.address(a); err != nil {
		return nil, err
	}
	if d.host == nil && !own.serve {
		return nil, misuse("--no-serve: there is no host that others could serve; --host names one")
	}
	model, err := flags.pick(a)
	if err != nil {
		return nil, err
	}
	d.model = model.Info()
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(ctx, 0))
		}
	}()
	opts := a.engine
	opts.LeaseTTL, opts.Logger, opts.Hooks = leaseTTL, own.logger, own.hooks
	if d.host != nil {
		warnings := own.warnings
		if warnings == nil {
			warnings = slog.New(slog.DiscardHandler)
		}
		if d.hosting, err = d.host.connect(ctx, a, flags.Executor, own.drain, warnings); err != nil {
			return nil, err
		}
		opts.LeaseTTL, opts.Host = hostLease, d.hosting.Host
	}
	st, err := d.at.open(ctx, a)
	if err != nil {
		return nil, err
	}
	d.store = st
	if d.shop, err = shop.Open(ctx, orElse(flags.Shop, d.at.shopPath()), a.engine.Now); err != nil {
		return nil, err
	}
	if d.eng, err = engine.New(d.store, []*cairn.Agent{support.Agent(d.shop, model)}, &opts); err != nil {
		return nil, err
	}
	if d.hosting != nil && own.serve {
		if err = d.hosting.serve(d.eng); err != nil {
			return nil, fmt.Errorf("%s: %w", d.host.given, err)
		}
	}
	return d, nil
}

// close closes what is open. It gives runs, or what this process carries out of them for a host, a little time to come to
// their end; the others stay where they stand, to be taken up later.
func (d *desk) close(ctx context.Context, grace time.Duration) (err error) {
	ctx = context.WithoutCancel(ctx)
	if d.hosting != nil && d.hosting.rest != nil {
		d.hosting.rest()
	}
	if d.eng != nil {
		closing, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		if err = d.eng.Close(closing); errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
	}
	if d.hosting != nil {
		closing, cancel := context.WithTimeout(ctx, reach)
		defer cancel()
		if failed := d.hosting.close(closing); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", d.host.given, failed))
		}
	}
	if d.shop != nil {
		err = errors.Join(err, d.shop.Close())
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	return err
}

// defaultSession is the session that the demo begins or goes on with if no other is named.
const defaultSession = "demo"

type demoCmd struct {
	deskFlags
	Session string `default:"${session}" help:"Session to begin or go on with. Default: demo."`
	User    string `help:"Who the customer is: the first name, as in ada, is enough."`
	Yes     bool   `short:"y" help:"Approve every refund without asking."`
	Serve   bool   `default:"true" negatable:"" help:"With --host, carry out what the answers need in this process too; without, a worker has to."`
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
	d, err := openDesk(ctx, a, cmd.deskFlags, deskOptions{serve: cmd.Serve, drain: grace})
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
	switch {
	case d.host != nil && cmd.Serve:
		c.screen.note(fmt.Sprintf("Answers are driven by %s, and carried out here or by any worker.", d.host))
	case d.host != nil:
		c.screen.note(fmt.Sprintf("Answers are driven by %s, and carried out by workers: %s work%s", d.host, c.program, d.at.option()+d.host.option()))
	}
	if d.model.Name == usualModel && a.env["OPENAI_MODEL"] == "" {
		c.screen.note("Set OPENAI_MODEL, or give --model openai:NAME, to have another model answer.")
	}
	return c.talk(ctx)
}
