package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// defaultDB is where the demo keeps its sessions, so that what it did can be looked at without saying where.
const defaultDB = "cairn-demo.db"

// database is the flag that says where sessions are.
type database struct {
	DB string `name:"db" placeholder:"PATH" default:"${db}" help:"Database: PATH or sqlite:PATH. Default: CAIRN_DB, else cairn-demo.db in the current directory."`
}

var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`) // two letters at least: C: is a drive

// path returns the path of the database file.
func (d database) path() (string, error) {
	path := d.DB
	if found := scheme.FindString(path); strings.EqualFold(found, "sqlite:") {
		path = strings.TrimPrefix(path[len(found):], "//")
	} else if found != "" {
		return "", misuse("--db: %q databases are not supported; give PATH or sqlite:PATH", strings.TrimSuffix(found, ":"))
	}
	if path == "" {
		return "", misuse("--db: the path is empty")
	}
	return path, nil
}

// open opens a database, making it if there is none.
func (d database) open(a *app) (*sqlitestore.Store, error) {
	path, err := d.path()
	if err != nil {
		return nil, err
	}
	return sqlitestore.Open(path, &sqlitestore.Options{Now: a.engine.Now})
}

// inspect calls do with an engine without agents on a database that must exist: it can look at sessions, change and
// stop them, but not run them.
func (d database) inspect(a *app, do func(context.Context, *engine.Engine) error) (err error) {
	path, err := d.path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return cairn.Errorf(cairn.CodeNotFound, "there is no database %s", path)
	}
	st, err := d.open(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	eng, err := engine.New(st, nil, &a.engine)
	if err != nil {
		return err
	}
	ctx, stop := untilStopped()
	defer stop()
	defer func() { err = errors.Join(err, eng.Close(context.WithoutCancel(ctx))) }()
	return do(ctx, eng)
}

// shopPath returns where the demo's shop is: beside its sessions.
func shopPath(db string) string {
	ext := filepath.Ext(db)
	return strings.TrimSuffix(db, ext) + "-shop" + ext
}
