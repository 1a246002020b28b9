package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// withUser returns the URL of a server for a role.
func withUser(target, role, password string) string {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	q := u.Query()
	q.Set("user", role)
	if password != "" {
		q.Set("password", password)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// TestBadInput opens databases that cannot be used. Each time the error is of the right kind and names the fault but no
// password, and nothing is created.
func TestBadInput(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	good := server.URL()
	if err := execAt(t, good,
		"CREATE ROLE "+testenv.PostgresPassword+" LOGIN PASSWORD '"+testenv.PostgresPassword+"'",
		"CREATE ROLE stranger LOGIN",
		"CREATE ROLE alone LOGIN CONNECTION LIMIT 0",
		"CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0",
		"CREATE SCHEMA theirs; CREATE TABLE theirs.sessions (id int)",
	); err != nil {
		t.Fatal(err)
	}
	newer := openAt(t, good, &Options{Schema: "newer"})
	older := openAt(t, good, &Options{Schema: "older"})
	if err := execAt(t, good,
		"INSERT INTO newer.cairn_migrations (version, name, fingerprint, min_build) SELECT max(version) + 1, 'later', 'x', max(version) + 1 FROM newer.cairn_migrations",
		"DELETE FROM older.cairn_migrations WHERE version > 1"); err != nil {
		t.Fatal(err)
	}
	replica := server.Replica(t)
	secret := "s3cr3t-word"
	for name, c := range map[string]struct {
		url  string
		opts Options
		want cairn.Code
		says string
	}{
		"no URL":                     {"", Options{}, cairn.ErrInvalid, "url: is empty"},
		"not a URL":                  {"postgres://user:" + secret + "@host:port/db", Options{}, cairn.ErrInvalid, "url: "},
		"another kind of URL":        {"mysql://user:" + secret + "@host/db", Options{}, cairn.ErrInvalid, "url: "},
		"wrong parameter":            {"postgres://user:" + secret + "@host/db?sslmode=perhaps", Options{}, cairn.ErrInvalid, "sslmode"},
		"a slash in the password":    {"postgres://user:12/" + secret + "@host/db", Options{}, cairn.ErrInvalid, "%2F"},
		"another slash in it":        {"postgres://user:" + secret + "/x@host/db", Options{}, cairn.ErrInvalid, "url: "},
		"an @ in the password":       {"postgres://user:x@" + secret + "@host:port/db", Options{}, cairn.ErrInvalid, "url: "},
		"a password as parameter":    {"postgres://host:port/db?password=" + secret, Options{}, cairn.ErrInvalid, "invalid port"},
		"keys and values":            {"host=h port=none password=" + secret, Options{}, cairn.ErrInvalid, "invalid port"},
		"spaces around a password":   {"host=h port=none password = '" + secret + "'", Options{}, cairn.ErrInvalid, "invalid port"},
		"a password with a space":    {"host=h password=two " + secret, Options{}, cairn.ErrInvalid, "url: "},
		"a quoted password":          {`host=h port=none password='it\'s ` + secret + `'`, Options{}, cairn.ErrInvalid, "invalid port"},
		"nobody listens":             {"postgres://user:" + secret + "@127.0.0.1:1/db", Options{}, cairn.ErrUnavailable, "cannot reach the server"},
		"no such host":               {"postgres://user:" + secret + "@no-such-host.invalid/db", Options{}, cairn.ErrUnavailable, "cannot reach the server"},
		"wrong password":             {withUser(good, testenv.PostgresPassword, secret), Options{}, cairn.ErrInvalid, "password authentication failed"},
		"no such account":            {withUser(good, "nobody_knows", secret), Options{}, cairn.ErrInvalid, "nobody_knows"},
		"no such database":           {strings.Replace(good, "///postgres", "///nowhere", 1), Options{}, cairn.ErrInvalid, "database not found"},
		"no connection left":         {withUser(good, "alone", ""), Options{}, cairn.ErrUnavailable, "too many connections"},
		"account that may not":       {withUser(good, "stranger", ""), Options{Schema: "forbidden"}, cairn.ErrInvalid, "permission denied for the database account"},
		"account that may not read":  {withUser(good, "stranger", ""), Options{Schema: "newer"}, cairn.ErrInvalid, "permission denied for the database account"},
		"replica":                    {replica.URL(), Options{}, cairn.ErrUnavailable, "read-only replica"},
		"database of other letters":  {strings.Replace(good, "///postgres", "///latin", 1), Options{}, cairn.ErrSchema, "LATIN1"},
		"missing schema":             {good, Options{Schema: "missing", NoMigrate: true}, cairn.ErrSchema, `schema "missing" not found`},
		"older schema":               {good, Options{Schema: "older", NoMigrate: true}, cairn.ErrSchema, `schema "older" has version 1`},
		"newer schema":               {good, Options{Schema: "newer"}, cairn.ErrSchema, fmt.Sprintf(`schema "newer" has schema version %d`, len(must(migrations()))+1)},
		"schema of another program":  {good, Options{Schema: "theirs"}, cairn.ErrSchema, `schema "theirs" has the tables of another application`},
		"name that is none":          {good, Options{Schema: `a"b`}, cairn.ErrInvalid, "schema: "},
		"name of the server's own":   {good, Options{Schema: "pg_catalog"}, cairn.ErrInvalid, "schema: "},
		"name that is too long":      {good, Options{Schema: strings.Repeat("x", 49)}, cairn.ErrInvalid, "schema: "},
		"negative poll interval":     {good, Options{PollInterval: -1}, cairn.ErrInvalid, "poll_interval: "},
		"negative event size":        {good, Options{MaxEvent: -1}, cairn.ErrInvalid, "max_event: "},
		"wrong URL for the listener": {good, Options{ListenURL: "postgres://:x:"}, cairn.ErrInvalid, "listen_url: "},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), c.url, &c.opts)
			if err == nil {
				s.Close()
				t.Fatal("it opened")
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q, want one of code %s that says %q", err, c.want, c.says)
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error contains the password or has several lines: %q", err)
			}
		})
	}
	for _, s := range []*Store{newer, older} {
		if _, err := s.SchemaVersion(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var left []string
	oneValue(t, good, "SELECT array_agg(nspname::text ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|information)'", &left)
	if want := []string{"newer", "older", "public", "theirs"}; !slices.Equal(left, want) {
		t.Errorf("schemas %q, want %q", left, want)
	}
}

// TestOutOfConnections uses a store whose server has no connection left: the error says so, and the store works again
// afterwards.
func TestOutOfConnections(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	schema := newSchema()
	openAt(t, server.URL(), &Options{Schema: schema})
	if err := execAt(t, server.URL(), "CREATE ROLE few LOGIN SUPERUSER"); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, withUser(server.URL(), "few", ""), &Options{Schema: schema, RetryFor: -1})
	if err := execAt(t, server.URL(), "ALTER ROLE few NOSUPERUSER CONNECTION LIMIT 0", "GRANT ALL ON SCHEMA "+schema+" TO few",
		"GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO few"); err != nil {
		t.Fatal(err)
	}
	s.pool.Reset()
	if _, err := driver.Load(t.Context(), s, "session"); !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), "too many connections") {
		t.Errorf("error %v, want ErrUnavailable for the lack of a connection", err)
	}
	if err := execAt(t, server.URL(), "ALTER ROLE few CONNECTION LIMIT 5"); err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Load(t.Context(), s, "session"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

// TestMigrateOnce opens a new schema many times concurrently: it is created once, and every opener can use it.
func TestMigrateOnce(t *testing.T) {
	t.Parallel()
	opts := &Options{Schema: "odd-Name_" + newSchema()}
	const openers = 8
	errs := make([]error, openers)
	var group sync.WaitGroup
	for i := range openers {
		group.Go(func() {
			s, err := Open(t.Context(), testenv.FastPostgres(t), opts)
			if err == nil {
				_, err = driver.Create(t.Context(), s, &cairn.Session{ID: fmt.Sprint("session-", i), Agent: "support"}, nil)
				s.Close()
			}
			errs[i] = err
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, testenv.FastPostgres(t), &Options{Schema: opts.Schema, NoMigrate: true})
	version, err := s.SchemaVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := len(must(migrations())); version != want {
		t.Errorf("version %d, want %d", version, want)
	}
	if page := must(s.List(t.Context(), driver.SessionQuery{})); len(page.Items) != openers {
		t.Errorf("%d sessions, want %d", len(page.Items), openers)
	}
}

// openVersion returns a closed store whose new schema has had some migrations applied.
func openVersion(t *testing.T, scripts backend.Schema) *Store {
	t.Helper()
	s := &Store{database: database{opts: Options{Schema: newSchema()}, pool: must(pgxpool.New(t.Context(), testenv.FastPostgres(t)))}}
	defer s.pool.Close()
	s.texts.schema = pgx.Identifier{s.opts.Schema}.Sanitize()
	if err := s.once(t.Context(), once, func(ctx context.Context, c *conn) error { return c.migrate(ctx, scripts) }); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMigrateContinues brings a schema that stopped at each version up to date.
func TestMigrateContinues(t *testing.T) {
	t.Parallel()
	scripts := must(migrations())
	for version := range scripts {
		opts := &openVersion(t, scripts[:version]).opts
		wantMigrations(t, opts, version, len(scripts))
		if err := Migrate(t.Context(), testenv.FastPostgres(t), opts); err != nil {
			t.Fatalf("from version %d: %v", version, err)
		}
		wantMigrations(t, opts, len(scripts), len(scripts))
		st := newStepper(t, openAt(t, testenv.FastPostgres(t), opts), "session", nil)
		if err := st.step(); err != nil {
			t.Errorf("from version %d: %v", version, err)
		}
	}
}

func TestMigrationsOfNoSchema(t *testing.T) {
	t.Parallel()
	opts := &Options{Schema: newSchema()}
	wantMigrations(t, opts, 0, len(must(migrations())))
	wantMigrations(t, opts, 0, len(must(migrations()))) // looking at it made nothing
}

// wantMigrations checks that, of all migrations, the first ones are reported as applied to a schema.
func wantMigrations(t *testing.T, opts *Options, applied, all int) {
	t.Helper()
	list, err := Migrations(t.Context(), testenv.FastPostgres(t), opts)
	if err != nil || len(list) != all {
		t.Fatalf("%d migrations, %v: want %d", len(list), err, all)
	}
	for i, m := range list {
		if m.Version != i+1 || m.Name == "" || m.Fingerprint == "" || m.MinBuild == 0 || m.Applied != (i < applied) || m.AppliedAt.IsZero() == m.Applied {
			t.Errorf("with %d applied: %+v", applied, m)
		}
	}
}

// TestMigrateAllOrNothing makes a migration fail halfway: nothing of it remains.
func TestMigrateAllOrNothing(t *testing.T) {
	t.Parallel()
	opts := &Options{Schema: newSchema()}
	s := &Store{database: database{opts: *opts, pool: must(pgxpool.New(t.Context(), testenv.FastPostgres(t)))}}
	defer s.pool.Close()
	s.texts.schema = pgx.Identifier{opts.Schema}.Sanitize()
	broken := extended(must(migrations()), 0, "CREATE TABLE {schema}.more (n int); SELECT 1/0")
	if err := s.once(t.Context(), once, func(ctx context.Context, c *conn) error { return c.migrate(ctx, broken) }); err == nil {
		t.Fatal("it succeeded")
	}
	var there bool
	oneValue(t, testenv.FastPostgres(t), "SELECT to_regnamespace('"+opts.Schema+"') IS NOT NULL", &there)
	if there {
		t.Error("the schema is there")
	}
}

// TestPoolOfTheCaller uses a store on a pool, which stays open after the store.
func TestPoolOfTheCaller(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testenv.FastPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := New(t.Context(), pool, &Options{Schema: newSchema(), SimpleProtocol: true}); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a protocol that the pool does not use: error %v, want ErrInvalid", err)
	}
	s, err := New(t.Context(), pool, &Options{Schema: newSchema()})
	if err != nil {
		t.Fatal(err)
	}
	if err := newStepper(t, s, "session", nil).step(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := driver.Load(t.Context(), s, "session"); !errors.Is(err, cairn.ErrClosed) {
		t.Errorf("after Close: error %v, want ErrClosed", err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool: %v", err)
	}
}
