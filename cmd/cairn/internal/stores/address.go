// Package stores opens the store that a URL, a flag or the environment names. Every error about a server names the
// flag or variable, and shows no password. Code that needs the servers' modules has the build tag !demo.
package stores

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/urls"
)

// kind is a kind of store.
type kind int

const (
	inFile kind = iota
	inPostgres
	inRedis
	inObjects
)

// Address is the address of a store.
type Address struct {
	given string // the flag or variable that named it, for errors
	kind  kind
	// place is the path of a file, or the URL of a server without this program's own parameters.
	place string
	// name is the schema or the prefix; empty for the default.
	name string
}

// keyValue matches the beginning of a connection string that libpq accepts but that is no URL.
var keyValue = regexp.MustCompile(`^\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=`)

// Parse parses the URL of a store, or the path of a file.
func Parse(given, text string) (*Address, error) {
	if keyValue.MatchString(text) { // must not pass for the path of a file: it may contain a password
		return nil, cli.Misuse("%s: must be a URL such as postgres://USER@HOST/DATABASE, not keys and values", given)
	}
	name, _ := urls.Scheme(text)
	switch name {
	case "", "sqlite":
		return parseFile(given, text)
	case "postgres", "postgresql":
		return parseServer(given, text, inPostgres, "schema")
	case "redis", "rediss", "unix", "redis-sentinel", "rediss-sentinel":
		return parseServer(given, text, inRedis, "prefix")
	case "do", "do+insecure":
		return parseServer(given, text, inObjects, "")
	}
	return nil, cli.Misuse("%s: unknown kind of store %q: must be one of sqlite:, postgres:, redis:, rediss:, redis-sentinel:, unix: for Redis on a socket, or do:",
		given, name)
}

// parseFile parses the path of a file, which may begin with sqlite:.
func parseFile(given, text string) (*Address, error) {
	path := text
	if name, rest := urls.Scheme(text); name == "sqlite" {
		path = strings.TrimPrefix(rest, "//")
	} else if name != "" {
		return nil, cli.Misuse("%s: must be a file, not %q; use --store for the URL of a server", given, name)
	}
	if path == "" {
		return nil, cli.Misuse("%s: path is empty", given)
	}
	return &Address{given: given, kind: inFile, place: path}, nil
}

// parseServer parses the URL of a server. One of its parameters is this program's, unless its name is empty; the others
// are the driver's.
func parseServer(given, text string, k kind, parameter string) (*Address, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		form := map[kind]string{inPostgres: "postgres://HOST/DATABASE", inRedis: "redis://HOST/0", inObjects: "do://HOST/STORE"}[k]
		return nil, cli.Misuse("%s: must be a URL of the form %s", given, form)
	}
	query := u.Query()
	at := &Address{given: given, kind: k}
	if parameter != "" && query.Has(parameter) {
		at.name = query.Get(parameter)
		if at.name == "" {
			return nil, cli.Misuse("%s: ?%s= is empty", given, parameter)
		}
		query.Del(parameter)
		u.RawQuery = query.Encode()
	}
	at.place = u.String()
	return at, nil
}

// String returns the address without a password.
func (at *Address) String() string {
	if at.kind == inFile {
		return at.place
	}
	switch {
	case at.name != "" && at.kind == inPostgres:
		return urls.Redacted(at.place, map[string]string{"schema": at.name})
	case at.name != "":
		return urls.Redacted(at.place, map[string]string{"prefix": at.name})
	}
	return urls.Redacted(at.place, nil)
}

// Option returns the flag, in shell syntax, that names the store to another command; empty for the default store.
func (at *Address) Option() string {
	switch {
	case at.kind != inFile:
		return " --store " + cli.Quoted(at.String())
	case at.place != DefaultFile:
		return " --db " + cli.Quoted(at.place)
	}
	return ""
}

// File returns the path of a store in a file; empty for a store on a server.
func (at *Address) File() string {
	if at.kind != inFile {
		return ""
	}
	return at.place
}

// Same reports whether both addresses lead to the same store.
func (at *Address) Same(other *Address) bool {
	return at.kind == other.kind && at.place == other.place && at.name == other.name
}
