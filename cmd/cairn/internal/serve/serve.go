// Package serve is the command that serves assistants over HTTP. It reads the file, opens what the file names,
// keeps the assistants in line with the file and the store, and shuts down in order.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/console"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server"
)

// Command serves assistants.
type Command struct {
	Config string `placeholder:"FILE" xor:"what" required:"" help:"The configuration file, in YAML: docs/SERVE.md lists its keys. Reloaded on SIGHUP and on change."`
	Demo   bool   `xor:"what" required:"" help:"Serve the demo's support agent and a scripted assistant to this machine, with a page for a browser."`
	Listen string `placeholder:"ADDRESS" help:"The address to listen on, instead of the file's."`
	Page   bool   `help:"Also serve the console, for a browser."`
	JSON   bool   `name:"json" help:"Log in JSON, overriding the file."`
}

// collectAt is the garbage, in percent of what is in use, at which it is collected. What is in use is mostly the bodies and
// messages of requests; less than Go's default of 100 bounds what many large ones take at once.
const collectAt = 35

// rest is how long requests may take once the engine is drained.
const rest = 5 * time.Second

// Run serves until the process is terminated.
func (cmd *Command) Run(a *cli.App) (err error) {
	again := make(chan os.Signal, 1)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if cmd.Demo { // has no file to read again, and ends with its terminal
		ends = append(ends, syscall.SIGHUP)
	} else {
		signal.Notify(again, syscall.SIGHUP)
		defer signal.Stop(again)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	if a.Env["GOGC"] == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	}
	cfg, err := cmd.read(a)
	if err != nil {
		return err
	}
	s := &service{app: a, cmd: cmd, again: again}
	s.log = cmd.logger(a, &cfg.Log, &s.level)
	s.toolsets = &toolsets{env: a.Env, logger: s.log}
	s.observed.env, s.observed.log = a.Env, s.log
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.open(ctx, cfg); err != nil {
		return err
	}
	return s.serve(ctx, cfg)
}

// read reads the file. It prints each mistake on its own line.
func (cmd *Command) read(a *cli.App) (*config.Config, error) {
	var cfg *config.Config
	var err error
	if cmd.Demo {
		cfg, err = config.Parse("demo.yaml", demoFile, a.Env, providers())
	} else {
		cfg, err = config.Read(cmd.Config, a.Env, providers())
	}
	var mistakes *config.Error
	if errors.As(err, &mistakes) {
		fmt.Fprintln(a.Stderr, mistakes)
		return nil, cli.Misuse("--config: %s in %s", counted(len(mistakes.Problems)), mistakes.File)
	}
	if err != nil || cmd.Listen == "" {
		return cfg, err
	}
	host, _, err := net.SplitHostPort(cmd.Listen)
	switch {
	case err != nil:
		return nil, cli.Misuse("--listen: must be an address such as 127.0.0.1:8420, not %q", cmd.Listen)
	case cfg.Auth.AllowUnauthenticated && !config.Loopback(host):
		return nil, cli.Misuse("--listen: %s is reachable from other machines, which requires auth.tokens, auth.jwt or auth.oidc", cmd.Listen)
	}
	cfg.Listen = cmd.Listen
	return cfg, nil
}

func counted(mistakes int) string {
	if mistakes == 1 {
		return "1 mistake"
	}
	return fmt.Sprintf("%d mistakes", mistakes)
}

// logger returns the process's log. level is set to that of the file, and may be changed later.
func (cmd *Command) logger(a *cli.App, log *config.Log, level *slog.LevelVar) *slog.Logger {
	level.Set(log.Least())
	opts := &slog.HandlerOptions{Level: level}
	if cmd.JSON || log.Format == "json" {
		return slog.New(slog.NewJSONHandler(a.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, opts))
}

// serve answers requests and drives runs until ctx is done.
func (s *service) serve(ctx context.Context, cfg *config.Config) error {
	was := s.stamp()
	h, err := server.New(s.eng, s.options(cfg))
	if err != nil {
		return err
	}
	front, err := s.front(cfg, h)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	finish, err := s.observed.start(ctx, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer finish()
	web := &http.Server{Handler: front, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ConnContext: server.ConnContext, TLSConfig: s.certificate.config(), ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1)
	go func() {
		if cfg.TLS.Cert != "" {
			failed <- web.ServeTLS(l, "", "")
		} else {
			failed <- web.Serve(l)
		}
	}()
	working, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(working, was)
	}()
	go func() { // streams end first, so that their clients reconnect to another process
		select {
		case err := <-failed:
			end(err)
		case <-working.Done():
		case <-ctx.Done():
			h.LameDuck()
			select {
			case <-time.After(time.Duration(cfg.LameDuck)):
			case <-working.Done():
			}
			end(nil)
		}
		h.Drain()
	}()
	s.announce(cfg, l.Addr())
	if cfg.Worker {
		err = s.eng.Serve(working)
	} else {
		<-working.Done()
		err = s.leave(ctx, time.Duration(cfg.Drain))
	}
	end(nil)
	<-watched
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rest)
	defer cancel()
	if web.Shutdown(closing) != nil { // a handler that reads its request's body for ever
		web.Close()
	}
	if cause := context.Cause(working); ctx.Err() == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	return err
}

// leave drains the engine as its Serve does, for a process that is not a worker.
func (s *service) leave(ctx context.Context, drain time.Duration) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return s.eng.Drain(closing)
}

// announce prints the server's address.
func (s *service) announce(cfg *config.Config, at net.Addr) {
	names := strings.Join(s.eng.Agents(), ", ")
	url := "http://" + at.String() + cfg.BasePath
	if cfg.TLS.Cert != "" {
		url = "https" + strings.TrimPrefix(url, "http")
	}
	if s.cmd.JSON || cfg.Log.Format == "json" {
		s.log.Info("serving", "url", url, "assistants", s.eng.Agents(), "store", s.place, "worker", cfg.Worker)
		return
	}
	fmt.Fprintf(s.app.Stderr, "Serving %s from %s. Ctrl-C ends.\n%s\n", cmp.Or(names, "no assistants"), s.place, url)
}

// front wraps the server's routes with the page, the base path, and the check of a request's host.
func (s *service) front(cfg *config.Config, api *server.Handler) (http.Handler, error) {
	h, err := s.paged(cfg, api)
	if err != nil {
		return nil, err
	}
	if cfg.BasePath != "" {
		below := http.NewServeMux()
		below.Handle(cfg.BasePath+"/", http.StripPrefix(cfg.BasePath, h))
		h = below
	}
	if cfg.Auth.AllowUnauthenticated {
		h = local(h, cfg.URL)
	}
	return h, nil
}

// paged adds the console to the server's routes if it is to be served, with the sign-in of the file's provider.
func (s *service) paged(cfg *config.Config, api *server.Handler) (http.Handler, error) {
	o := &cfg.Auth.OIDC
	switch {
	case !s.cmd.Page && !s.cmd.Demo:
		return api, nil
	case !o.Given():
		return withConsole(api, nil), nil
	}
	signIn, err := newSignIn(api, o, s.log)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", withConsole(api, &console.Options{Provider: o.Name}))
	mux.Handle("/console/oidc/", http.StripPrefix("/console/oidc", signIn))
	return mux, nil
}

// withConsole adds the console at /console/, to which / redirects. The addresses are relative: the base path may be anything.
func withConsole(h http.Handler, opts *console.Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/console/", http.StripPrefix("/console", console.New(opts)))
	mux.Handle("/console/session", h) // a route of the API
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "console/")
		w.WriteHeader(http.StatusSeeOther)
	})
	return mux
}

// local rejects requests whose Host is neither this machine nor that of the server's address, which may be empty.
// Otherwise a page of another host whose name resolves to this machine (DNS rebinding) could do all that users of this
// machine may do.
func local(h http.Handler, address string) http.Handler {
	own := ""
	if u, err := url.Parse(address); err == nil {
		own = u.Hostname()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if host = strings.Trim(host, "[]"); !config.Loopback(host) && (own == "" || !strings.EqualFold(host, own)) {
			http.Error(w, "without authentication the server accepts only requests from this machine, to localhost or the host of url", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// options returns the server's options from the file.
func (s *service) options(cfg *config.Config) *server.Options {
	opts := &server.Options{
		AllowUnauthenticated: cfg.Auth.AllowUnauthenticated, Logger: s.log, Origins: slices.Clone(cfg.CORS.Origins), URL: cfg.URL, MaxBody: int64(cfg.Limits.Body),
		MaxChatBody: int64(cfg.Limits.ChatBody), MaxValues: cfg.Limits.JSONValues,
		StreamsPerUser: cfg.Limits.StreamsPerUser, RequestsPerMinute: cfg.Limits.RequestsPerMinute, RunsPerUser: max(cfg.Limits.RunsPerUser, 0), Unready: s.unready, Threads: s.threads, Advance: s.advance,
	}
	if !opts.AllowUnauthenticated {
		opts.Authenticate, opts.SignIn = s.authenticate, &server.SignIn{}
	}
	if m := s.observed.metrics; m != nil {
		opts.Observer = m
	}
	return opts
}

// authenticate returns who makes a request, by the current file.
func (s *service) authenticate(r *http.Request) (*server.Principal, error) {
	return s.known.Load().principal(r)
}

// unready returns what an assistant does with a turn that cannot begin at once.
func (s *service) unready(agent string) server.Unready {
	if d := s.set.Load().Latest[agent]; d != nil {
		return server.Unready{OnBusy: d.OnBusy, OnWaiting: d.OnWaiting}
	}
	return server.Unready{}
}

// threads returns how the sessions of a thread of an assistant follow each other.
func (s *service) threads(agent string) server.Threads {
	if d := s.set.Load().Latest[agent]; d != nil {
		return server.Threads{OnExpired: server.OnExpired(d.OnExpired), EachTurn: d.Sessions == "each_turn"}
	}
	return server.Threads{}
}

// engineOptions returns the options of the engine from the file, except its host and its log.
func (s *service) engineOptions(cfg *config.Config) (engine.Options, error) {
	opts := s.app.Engine
	if cfg.Models != "" {
		raw, err := os.ReadFile(cfg.Models)
		if err == nil {
			opts.Models, err = cairn.ParseModels(raw)
		}
		if err != nil {
			return opts, cairn.Invalid("models", "models: %s: %v", cfg.Models, err)
		}
	}
	opts.Logger, opts.CloseGrace = s.log, time.Duration(cfg.Drain)
	opts.WorkConcurrency, opts.WaitAtMost, opts.MaxQueue, opts.MaxReplaced = cfg.WorkConcurrency, time.Duration(cfg.WaitAtMost), cfg.Limits.Queue, cfg.Limits.Replaced
	opts.LeaseTTL = cmp.Or(opts.LeaseTTL, time.Duration(cfg.Lease))
	opts.Retention, opts.UsageRetention = time.Duration(cfg.Retention.Removed), time.Duration(cfg.Retention.Usage)
	for i := range cfg.Budgets {
		opts.Budgets = append(opts.Budgets, cfg.Budgets[i].Rule())
	}
	opts.EventRetention = engine.EventRetention{Age: time.Duration(cfg.Retention.EventAge), Events: cfg.Retention.Events}
	return opts, nil
}
