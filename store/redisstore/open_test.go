package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// wantError checks that an error has the sentinel's code and contains some words, in one line.
func wantError(t *testing.T, err error, want cairn.Code, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want one of code %q", err, want)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %q has several lines or contains the password", err)
	}
}

func TestOpenRefusesBadInput(t *testing.T) {
	t.Parallel()
	good := testenv.Redis(t)
	for name, test := range map[string]struct {
		url   string
		opts  Options
		words string
	}{
		"no URL":          {"", Options{}, "url"},
		"not a URL":       {"redis://:secret@host:port:port", Options{}, "url"},
		"another scheme":  {"postgres://user:secret@localhost/db", Options{}, "postgres"},
		"a bad database":  {"redis://:secret@localhost/first", Options{}, "database"},
		"a bad option":    {"redis://localhost?colour=red", Options{}, "colour"},
		"a slash":         {"redis://:12/secret@localhost/0", Options{}, "%2F"},
		"another slash":   {"redis://:secret/12@localhost/0", Options{}, "url"},
		"a parameter":     {"redis://localhost?password=secret", Options{}, "password"},
		"a bad address":   {"redis://localhost?addr=other", Options{}, "addr must have the form host:port"},
		"two sockets":     {"unix:///socket?addr=localhost:1", Options{}, "further addresses"},
		"no primary":      {"redis-sentinel://localhost", Options{}, "?master=NAME"},
		"a brace":         {good, Options{Prefix: "a{b"}, "prefix"},
		"a negative size": {good, Options{MaxEvent: -1}, "max_event"},
		"retention":       {good, Options{Retention: -1}, "retention"},
		"events":          {good, Options{EventRetention: -1}, "event_retention"},
		"connections":     {good, Options{Connections: -1}, "connections"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.Context(), test.url, &test.opts)
			if err == nil {
				s.Close()
			}
			wantError(t, err, cairn.ErrInvalid, test.words)
		})
	}
}

// refused returns the error of an Open that must fail, within the time that a user at a command line would wait.
func refused(t *testing.T, url string, opts *Options) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := Open(ctx, url, opts)
	if err == nil {
		s.Close()
		t.Fatal("it opens")
	}
	return err
}

func TestOpenWithoutAServer(t *testing.T) {
	t.Parallel()
	address := testenv.FreeAddress(t)
	wantError(t, refused(t, "redis://:secret@"+address, nil), cairn.ErrUnavailable, address, "cannot reach the server")
	wantError(t, refused(t, "unix:///nowhere/socket", nil), cairn.ErrUnavailable, "/nowhere/socket")
}

func TestOpenWithAWrongPassword(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t, "--appendonly", "no", "--requirepass", "right")
	for name, user := range map[string]string{"a wrong one": ":secret@", "none": "", "an unknown user": "nobody:secret@"} {
		url := strings.Replace(server.URL(), "unix://", "unix://"+user, 1)
		err := refused(t, url, nil)
		wantError(t, err, cairn.ErrUnavailable, "rejected the user or password")
		t.Log(name, err)
	}
	openAt(t, strings.Replace(server.URL(), "unix://", "unix://:right@", 1), nil)
}

func TestOpenOfAnotherSchema(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	key := s.opts.Prefix + ":schema"
	for version, says := range map[int]string{schemaVersion + 1: "newer program", schemaVersion - 1: "an older program wrote them; export them with that program and import them here, or set another Options.Prefix"} {
		if err := s.client.HSet(t.Context(), key, "version", version).Err(); err != nil {
			t.Fatal(err)
		}
		wantError(t, refused(t, s.url, &s.opts), cairn.ErrSchema, fmt.Sprint("schema version ", version), says)
		if got := s.client.HGet(t.Context(), key, "version").Val(); got != strconv.Itoa(version) {
			t.Errorf("the version became %q", got)
		}
	}
	if err := s.client.Set(t.Context(), "foreign:schema", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	wantError(t, refused(t, s.url, &Options{Prefix: "foreign"}), cairn.ErrSchema, "foreign:schema")
}

// Keys of a newer layout are opened if they say that this program may use them.
func TestOpenOfANewerSchemaThatAllowsIt(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	set := func(minBuild int) {
		t.Helper()
		if err := s.client.HSet(t.Context(), s.schemaKey(), "version", schemaVersion+2, "min_build", minBuild).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(schemaVersion + 1)
	wantError(t, refused(t, s.url, &s.opts), cairn.ErrSchema, fmt.Sprint("schema version ", schemaVersion+2), "newer program")
	set(schemaVersion)
	second(t, s)
	if list, err := Migrations(t.Context(), s.url, &s.opts); err != nil || len(list) != 1 || !list[0].Applied {
		t.Errorf("%+v, %v", list, err)
	}
	if got := s.client.HGet(t.Context(), s.schemaKey(), "version").Val(); got != strconv.Itoa(schemaVersion+2) {
		t.Errorf("the version became %q", got)
	}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	none := &Options{Prefix: s.opts.Prefix + "-none"}
	for range 2 { // a look changes nothing
		list, err := Migrations(t.Context(), s.url, none)
		if err != nil || len(list) != 1 || list[0].Applied {
			t.Errorf("%+v, %v", list, err)
		}
	}
	list, err := Migrations(t.Context(), s.url, &s.opts)
	if err != nil || len(list) != 1 || !list[0].Applied || list[0].Version != schemaVersion {
		t.Errorf("%+v, %v", list, err)
	}
	if err := s.client.HSet(t.Context(), s.schemaKey(), "version", schemaVersion+1).Err(); err != nil {
		t.Fatal(err)
	}
	_, err = Migrations(t.Context(), s.url, &s.opts)
	wantError(t, err, cairn.ErrSchema, "newer program")
}

func TestKeysOfSomebodyElse(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	if err := s.client.Set(t.Context(), s.buckets[0]+"s:session", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := driver.Load(t.Context(), s, "session")
	wantError(t, err, cairn.ErrSchema, "belongs to another application")
}

func TestServerOutOfConnections(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t, "--appendonly", "no", "--maxclients", "1")
	openAt(t, server.URL(), &Options{Connections: 1})
	wantError(t, refused(t, server.URL(), nil), cairn.ErrUnavailable, "too many connections")
}

func TestReadOnlyReplica(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t, "--appendonly", "no")
	s := openAt(t, server.URL(), nil)
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	wantError(t, refused(t, server.URL(), &Options{RetryFor: -1}), cairn.ErrUnavailable, "read-only replica")
	_, err := driver.AppendMessages(t.Context(), s, "session", cairn.User(cairn.TextPart("hello")))
	wantError(t, err, cairn.ErrUnavailable, "read-only replica")
}

func TestServerThatEvicts(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t, "--appendonly", "no", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	wantError(t, refused(t, server.URL(), nil), cairn.ErrInvalid, "maxmemory-policy", "noeviction")
}

// An operator changes the policy while the store is open: it logs errors, and reports the fact when it is asked.
func TestServerThatEvictsLater(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t, "--appendonly", "no", "--maxmemory", "100mb")
	logger, logged := warnings()
	s := openAt(t, server.URL(), &Options{Logger: logger})
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
	s.unwatch()
	s.startWatch(2 * time.Millisecond)
	if err := s.client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	testclock.Await(t, "two errors in the log", func() bool { return logged("level=ERROR") > 1 && logged("noeviction") > 1 })
	wantError(t, s.Health(t.Context()), cairn.ErrInvalid, "maxmemory-policy", "allkeys-lru", "noeviction")
}

// A server that is out of memory refuses a whole commit.
func TestServerOutOfMemory(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t, "--appendonly", "no")
	s := openAt(t, server.URL(), nil)
	row, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = driver.AppendMessages(t.Context(), s, "session", cairn.User(cairn.TextPart("hello")))
	wantError(t, err, cairn.ErrUnavailable, "out of memory")
	if now, err := driver.Load(t.Context(), s, "session"); err != nil || now.Version != row.Version {
		t.Errorf("row %+v, %v", now, err)
	}
}

func TestCancelledContext(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, s.url, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
}
