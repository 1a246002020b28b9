package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// defaultDB is where the demo keeps its sessions, so that what it did can be looked at without saying where.
const defaultDB = "cairn-demo.db"

// storeFlags say where sessions are.
type storeFlags struct {
	Store string `placeholder:"URL" xor:"store" help:"Where sessions are: postgres://HOST/DATABASE?schema=NAME, redis://HOST/0?prefix=NAME, sqlite:PATH or PATH. Default: CAIRN_STORE, else CAIRN_DB, else cairn-demo.db in the current directory."`
	DB    string `name:"db" placeholder:"PATH" xor:"store" help:"Short for --store sqlite:PATH."`
}

// address returns the store that the flags or else the environment name.
func (f storeFlags) address(a *app) (*address, error) {
	switch {
	case f.Store != "":
		return parseAddress("--store", f.Store)
	case f.DB != "":
		return parseFile("--db", f.DB)
	case a.env["CAIRN_STORE"] != "":
		return parseAddress("CAIRN_STORE", a.env["CAIRN_STORE"])
	case a.env["CAIRN_DB"] != "":
		return parseFile("CAIRN_DB", a.env["CAIRN_DB"])
	}
	return parseFile("--db", defaultDB)
}

// inspect calls do with an engine without agents on a store that must be there: it can look at sessions, change and stop
// them, but not run them.
func (f storeFlags) inspect(a *app, do func(context.Context, *engine.Engine) error) (err error) {
	at, err := f.address(a)
	if err != nil {
		return err
	}
	ctx, stop := untilStopped()
	defer stop()
	st, err := at.openExisting(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	eng, err := engine.New(st, nil, &a.engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close(context.WithoutCancel(ctx))) }()
	return do(ctx, eng)
}

// kind is a kind of store.
type kind int

const (
	inFile kind = iota
	inPostgres
	inRedis
)

// address is where a store is.
type address struct {
	given string // what on the command line or in the environment named it, for errors
	kind  kind
	// place is the path of a file, or the URL of a server without what only this program knows.
	place string
	// name is the schema or the prefix; empty for the default one.
	name string
}

// keyValue is how a connection string begins that is no URL, but what libpq takes as well.
var keyValue = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=`)

var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`) // two letters at least: C: is a drive

// parseAddress reads the URL of a store, or the path of a file.
func parseAddress(given, text string) (*address, error) {
	if keyValue.MatchString(text) { // not to be taken for the path of a file: it may have a password
		return nil, misuse("%s: a server is named by a URL such as postgres://USER@HOST/DATABASE, not by keys and values", given)
	}
	found := scheme.FindString(text)
	name := strings.ToLower(strings.TrimSuffix(found, ":"))
	switch name {
	case "", "sqlite":
		return parseFile(given, text)
	case "postgres", "postgresql":
		return parseServer(given, text, inPostgres, "schema")
	case "redis", "rediss", "unix":
		return parseServer(given, text, inRedis, "prefix")
	}
	return nil, misuse("%s: %q is no kind of store; there are sqlite:, postgres:, redis:, rediss:, and unix: for Redis on a socket",
		given, name)
}

// parseFile reads the path of a file, which may begin with sqlite:.
func parseFile(given, text string) (*address, error) {
	path := text
	if found := scheme.FindString(text); strings.EqualFold(found, "sqlite:") {
		path = strings.TrimPrefix(text[len(found):], "//")
	} else if found != "" {
		return nil, misuse("%s: %q is not a file; --store takes the URL of a server", given, strings.TrimSuffix(found, ":"))
	}
	if path == "" {
		return nil, misuse("%s: the path is empty", given)
	}
	return &address{given: given, kind: inFile, place: path}, nil
}

// parseServer reads the URL of a server. One of its parameters is for this program, the others are the driver's.
func parseServer(given, text string, k kind, parameter string) (*address, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		form := map[kind]string{inPostgres: "postgres://HOST/DATABASE", inRedis: "redis://HOST/0"}[k]
		return nil, misuse("%s: not a URL of the form %s", given, form)
	}
	query := u.Query()
	at := &address{given: given, kind: k, name: query.Get(parameter)}
	if query.Has(parameter) {
		if at.name == "" {
			return nil, misuse("%s: ?%s= names nothing", given, parameter)
		}
		query.Del(parameter)
		u.RawQuery = query.Encode()
	}
	at.place = u.String()
	return at, nil
}

// String returns the address as it may be shown: without a password.
func (at *address) String() string {
	if at.kind == inFile {
		return at.place
	}
	u, err := url.Parse(at.place)
	if err != nil {
		return "the store"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
		}
	}
	switch {
	case at.name != "" && at.kind == inPostgres:
		query.Set("schema", at.name)
	case at.name != "":
		query.Set("prefix", at.name)
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}

// option returns the flag, as it is typed, that names the store to another command; nothing for the one that every command
// takes.
func (at *address) option() string {
	switch {
	case at.kind != inFile:
		return " --store " + quoted(at.String())
	case at.place != defaultDB:
		return " --db " + quoted(at.place)
	}
	return ""
}

// opened is a store that is open, with its event log. Each kind of store can take in what another one has.
type opened = store.Importer

// open opens the store, making it or bringing its schema up to date as need be.
func (at *address) open(ctx context.Context, a *app) (st opened, err error) {
	if at.kind != inFile {
		st, err = at.openServer(ctx)
	} else {
		st, err = sqlitestore.Open(at.place, &sqlitestore.Options{Now: a.engine.Now})
	}
	return st, at.explain(err)
}

// openExisting opens a store that is there. A file is brought up to date, as it has no other owner; the schema of a server
// is left to cairn migrate.
func (at *address) openExisting(ctx context.Context, a *app) (opened, error) {
	list, err := at.migrations(ctx)
	if err != nil {
		return nil, err
	}
	applied := countApplied(list)
	switch {
	case applied == 0 && at.kind == inFile:
		return nil, cairn.Errorf(cairn.CodeNotFound, "there is no database %s", at)
	case applied < len(list) && at.kind != inFile:
		missing := fmt.Sprintf("%s has schema version %d of %d", at, applied, len(list))
		if applied == 0 {
			missing = fmt.Sprintf("%s has no tables of Cairn yet", at)
		}
		return nil, at.explain(cairn.Errorf(cairn.CodeSchema, "%s: run %s migrate up%s", missing, a.program, at.option()))
	}
	return at.open(ctx, a)
}

// migrations tells how far the store's schema is.
func (at *address) migrations(ctx context.Context) (list []store.Migration, err error) {
	if at.kind != inFile {
		list, err = at.serverMigrations(ctx)
	} else {
		list, err = sqlitestore.Migrations(at.place, nil)
	}
	return list, at.explain(err)
}

func countApplied(list []store.Migration) (n int) {
	for i := range list {
		if list[i].Applied {
			n++
		}
	}
	return n
}

// explain says which store an error is about. Those about a file name it already.
func (at *address) explain(err error) error {
	if err == nil || at.kind == inFile {
		return err
	}
	return fmt.Errorf("%s: %w", at.given, err)
}

// shopPath returns where the demo's shop is, unless a flag says so: beside a file of sessions, else in the current
// directory.
func (at *address) shopPath() string {
	db := defaultDB
	if at.kind == inFile {
		db = at.place
	}
	ext := filepath.Ext(db)
	return strings.TrimSuffix(db, ext) + "-shop" + ext
}
