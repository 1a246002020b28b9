package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/hosts"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/assistants"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// service holds all that the command has open.
type service struct {
	app   *cli.App
	cmd   *Command
	log   *slog.Logger
	level slog.LevelVar
	again <-chan os.Signal // requests to read the file again

	certificate certificate

	place    string // of the store, without a password
	sessions store.Store
	observed observed
	closers  []func() error
	eng      *engine.Engine
	host     *hosts.Connection
	advance  *server.Advance // nil unless callers drive the runs
	catalog  *assistants.Catalog
	toolsets *toolsets
	own      []*cairn.Agent // agents that no file declares: the demo's

	cfg   *config.Config // as last read
	seen  int64          // the catalog's number when it was last read
	known atomic.Pointer[known]
	set   atomic.Pointer[assistants.Set]
}

// open opens what the file names and loads its assistants.
func (s *service) open(ctx context.Context, cfg *config.Config) error {
	if err := s.certificate.load(cfg.TLS); err != nil {
		return err
	}
	st, err := s.store(ctx, "store", cfg.Store)
	if err != nil {
		return err
	}
	exported, err := metricsPlace(s.app.Env)
	if err != nil {
		return err
	}
	if cfg.Metrics != "" || exported != "" {
		if s.observed.metrics, st, err = meter(st); err != nil {
			return err
		}
	}
	s.sessions = st
	records, ok := driver.As[store.RecordProvider](st)
	if !ok {
		return cairn.Invalid("store", "store: must keep records, for the definitions of assistants")
	}
	s.catalog = &assistants.Catalog{Records: records.Records(), Logger: s.log}
	opts, err := s.engineOptions(cfg)
	if err != nil {
		return err
	}
	if cfg.Events != "" {
		events, err := s.store(ctx, "events", cfg.Events)
		if err != nil {
			return err
		}
		opts.Log = events.(driver.LogProvider).EventLog()
	}
	if s.cmd.Demo {
		opts.LeaseTTL = cmp.Or(opts.LeaseTTL, demoLease)
		if s.own, err = s.demo(ctx); err != nil {
			return err
		}
	}
	if cfg.Host != "" {
		if err := s.connect(ctx, cfg, &opts); err != nil {
			return err
		}
	}
	if cfg.Advance.Secret != "" {
		if opts.Host, s.advance, err = callers(&cfg.Advance); err != nil {
			return err
		}
	}
	hooks, err := s.observed.tracing(cfg)
	if err != nil {
		return err
	}
	opts.Hooks = append(slices.Clip(opts.Hooks), hooks...)
	if s.eng, err = engine.New(st, nil, &opts); err != nil {
		return err
	}
	s.observed.eng = s.eng
	if err := s.take(ctx, cfg); err != nil {
		return err
	}
	if s.host != nil && cfg.Worker {
		if err := s.host.Serve(s.eng); err != nil {
			return fmt.Errorf("host: %w", err)
		}
	}
	return nil
}

// inMemory is the store that ends with the process.
const inMemory = "memory"

// store opens the store that a key of the file names.
func (s *service) store(ctx context.Context, key, text string) (store.Store, error) {
	if text == inMemory || text == inMemory+":" {
		st := memstore.New(nil)
		s.closers = append(s.closers, st.Close)
		s.place = cmp.Or(s.place, inMemory)
		return st, nil
	}
	at, err := stores.Parse(key, text)
	if err != nil {
		return nil, err
	}
	st, err := at.Open(ctx, s.app.Engine.Now)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, st.Close)
	s.place = cmp.Or(s.place, at.String())
	return st, nil
}

// connect connects to the host that drives runs.
func (s *service) connect(ctx context.Context, cfg *config.Config, opts *engine.Options) error {
	at, err := hosts.Parse("host", cfg.Host)
	if err != nil {
		return err
	}
	reaching, cancel := context.WithTimeout(ctx, cmp.Or(s.app.Reach, hosts.Reach))
	defer cancel()
	if s.host, err = at.Connect(reaching, s.app.Env, cfg.Executor, time.Duration(cfg.Drain), s.log); err != nil {
		return err
	}
	opts.Host, opts.LeaseTTL = s.host.Host, cmp.Or(opts.LeaseTTL, hosts.Lease)
	return nil
}

// take publishes the assistants of a file and serves them from now on, to the users that the file admits. On an
// error it leaves what is served unchanged.
func (s *service) take(ctx context.Context, cfg *config.Config) error {
	parts := s.parts(cfg)
	if err := assistants.Check(cfg.Assistants, parts); err != nil {
		return err
	}
	if s.cfg != nil && s.cfg.TLS.Cert != "" { // later than the start
		if err := s.certificate.load(cfg.TLS); err != nil {
			return err
		}
	}
	if err := s.catalog.Publish(ctx, cfg.Assistants); err != nil {
		return err
	}
	if err := s.load(ctx, cfg); err != nil {
		return err
	}
	who, err := admit(&cfg.Auth, s.known.Load())
	if err != nil {
		return err
	}
	s.known.Store(who)
	s.level.Set(cfg.Log.Least())
	s.cfg = cfg
	return nil
}

// load serves the assistants of a file at their versions in the store.
func (s *service) load(ctx context.Context, cfg *config.Config) error {
	seen, err := s.catalog.Changed(ctx)
	if err != nil {
		return err
	}
	var names []string
	for i := range cfg.Assistants {
		names = append(names, cfg.Assistants[i].Name)
	}
	set, err := s.catalog.Load(ctx, names, s.parts(cfg))
	if err != nil {
		return err
	}
	if err := s.eng.Replace(append(slices.Clone(s.own), set.Agents...)...); err != nil {
		return err
	}
	s.seen = seen
	s.set.Store(set)
	return nil
}

// parts builds models and toolsets from the settings of a file.
func (s *service) parts(cfg *config.Config) assistants.Parts {
	model := func(id string) (cairn.Model, error) {
		provider, name, _ := strings.Cut(id, ":")
		if provider == config.Scripted {
			return scriptedModel(name)
		}
		return ofProvider(id, cfg.Providers[provider], s.app.Env)
	}
	return assistants.Parts{
		Model:   model,
		Toolset: s.toolsets.of,
		Skills:  s.skills,
		Memory:  func(m *config.Memory) (cairn.Memory, error) { return s.memory(m, model) },
		Workspace: func(w *config.Workspace) (cairn.Workspace, error) {
			return s.toolsets.workspace(w, s.sessions)
		},
	}
}

// look is the interval at which the file and the store are checked for changes.
const look = time.Second

// watch applies changes of the file since its stamp was was, and changes that other processes made to the assistants, until
// ctx is done.
func (s *service) watch(ctx context.Context, was string) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.again:
			was = s.stamp()
			s.reload(ctx)
		case <-ticker.C:
			if now := s.stamp(); now != was {
				was = now
				s.reload(ctx)
			}
			s.follow(ctx)
		}
	}
}

// stamp changes with the file and with those of the certificate.
func (s *service) stamp() string {
	if s.cmd.Demo {
		return ""
	}
	all := ""
	for _, file := range []string{s.cmd.Config, s.cfg.TLS.Cert, s.cfg.TLS.Key} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return "" // being replaced
		}
		all += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), " ")
	}
	return all
}

// reload reads the file again and applies it. A file with mistakes changes nothing.
func (s *service) reload(ctx context.Context) {
	if s.cmd.Demo {
		return
	}
	cfg, err := config.Read(s.cmd.Config, s.app.Env, providers())
	var mistakes *config.Error
	if errors.As(err, &mistakes) {
		for _, p := range mistakes.Problems {
			s.log.Error("invalid config; keeping the previous one", "file", mistakes.File, "mistake", p.String())
		}
		return
	}
	if err == nil {
		for _, key := range lasting(s.cfg, cfg) {
			s.log.Warn("change of this key takes effect after a restart", "key", key)
		}
		err = s.take(ctx, cfg)
	}
	if err != nil {
		s.log.Error("cannot apply config; keeping the previous one", "file", s.cmd.Config, "error", err)
		return
	}
	s.log.Info("config reloaded", "file", s.cmd.Config, "versions", s.set.Load().Numbers)
}

// lasting returns the changed keys that are read only at the start.
func lasting(before, after *config.Config) []string {
	at := []string{"auth.tokens", "auth.jwt", "providers", "assistants", "log.level"} // at once
	if before.TLS.Cert != "" && after.TLS.Cert != "" {
		at = append(at, "tls")
	}
	return changed(reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem(), "", at)
}

// changed returns the keys whose values differ, except some.
func changed(a, b reflect.Value, prefix string, except []string) (keys []string) {
	for i := range a.NumField() {
		key := prefix + a.Type().Field(i).Tag.Get("yaml")
		switch x, y := a.Field(i), b.Field(i); {
		case slices.Contains(except, key) || reflect.DeepEqual(x.Interface(), y.Interface()):
		case x.Kind() == reflect.Struct:
			keys = append(keys, changed(x, y, key+".", except)...)
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// follow applies changes that another process made to the assistants.
func (s *service) follow(ctx context.Context) {
	seen, err := s.catalog.Changed(ctx)
	if err == nil && seen != s.seen {
		before := s.set.Load()
		if err = s.load(ctx, s.cfg); err == nil && !reflect.DeepEqual(before.Numbers, s.set.Load().Numbers) {
			s.log.Info("assistants updated", "versions", s.set.Load().Numbers)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error("cannot read the definitions of assistants; keeping the previous ones", "error", err)
	}
}

// close closes what is open, the engine before the resources that it uses.
func (s *service) close(ctx context.Context) (err error) {
	if s.host != nil && s.host.Rest != nil {
		s.host.Rest()
	}
	if s.eng != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if failed := s.eng.Close(closing); !errors.Is(failed, context.DeadlineExceeded) {
			err = failed
		}
	}
	if s.host != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), hosts.Reach)
		defer cancel()
		err = errors.Join(err, s.host.Close(closing))
	}
	err = errors.Join(err, s.toolsets.close())
	for _, end := range slices.Backward(s.closers) {
		err = errors.Join(err, end())
	}
	return err
}
