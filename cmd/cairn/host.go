package main

import (
	"context"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/engine"
)

// hostFlags say what drives runs, if it is not this process by itself.
type hostFlags struct {
	Host     string `placeholder:"URL" help:"What drives runs: temporal://HOST:PORT/NAMESPACE?queue=NAME, dbos://HOST/DATABASE?queue=NAME or dbos:sqlite:PATH?queue=NAME. Keys and certificates for Temporal come from TEMPORAL_* variables or temporal.toml. Default: CAIRN_HOST, else this process by itself."`
	Executor string `placeholder:"NAME" help:"This process's name to the host, kept when it is started again and shared with no other. On DBOS it then goes on at once with what it left. Default: a new one each time."`
}

// address returns the host that the flags or else the environment name; nil if they name none.
func (f hostFlags) address(a *app) (*hostAddress, error) {
	given, text := "--host", f.Host
	if text == "" {
		given, text = "CAIRN_HOST", a.env["CAIRN_HOST"]
	}
	if text == "" {
		if f.Executor != "" {
			return nil, misuse("--executor: there is no host to tell it to; --host names one")
		}
		return nil, nil
	}
	return parseHost(given, text)
}

// hostKind is a kind of host.
type hostKind int

const (
	onTemporal hostKind = iota
	onDBOS
)

// hostAddress is where a host is.
type hostAddress struct {
	given string // what on the command line or in the environment named it, for errors
	kind  hostKind
	// place is a Temporal server's HOST:PORT, or what DBOS takes for its database. What the URL leaves out of Temporal's place
	// and namespace is empty until connect finds it in the settings of Temporal's own tools.
	place     string
	namespace string
	tls       string // of the connection to Temporal: true or false; empty for what its settings say
	queue     string // also what the ids of Temporal's workflows begin with; empty for the default one
	schema    string // of DBOS's tables in PostgreSQL; empty for the default one
	search    bool   // Temporal's workflows have search attributes
}

// temporalPort is a Temporal server's, if its URL names none.
const temporalPort = "7233"

const (
	temporalForm = "temporal://HOST:PORT/NAMESPACE"
	dbosForm     = "dbos://HOST/DATABASE, dbos:sqlite:PATH"
)

// parseHost reads the URL of a host.
func parseHost(given, text string) (*hostAddress, error) {
	found := scheme.FindString(text)
	switch name := strings.ToLower(strings.TrimSuffix(found, ":")); name {
	case "temporal":
		return parseTemporal(given, text)
	case "dbos":
		return parseDBOS(given, text[len(found):])
	case "":
		return nil, misuse("%s: not a URL of one of the forms %s, %s", given, temporalForm, dbosForm)
	default:
		return nil, misuse("%s: %q is no kind of host; there are temporal: and dbos:", given, name)
	}
}

func parseTemporal(given, text string) (*hostAddress, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Hostname() == "" && u.Host != "" || u.Fragment != "" ||
		strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "[") {
		return nil, misuse("%s: not a URL of the form %s", given, temporalForm)
	}
	if u.User != nil {
		return nil, misuse("%s: %s takes no user", given, temporalForm)
	}
	at := &hostAddress{given: given, kind: onTemporal, namespace: strings.Trim(u.Path, "/")}
	if strings.Contains(at.namespace, "/") {
		return nil, misuse("%s: %q is no namespace", given, at.namespace)
	}
	if u.Host != "" {
		at.place = net.JoinHostPort(u.Hostname(), orElse(u.Port(), temporalPort))
	}
	search := ""
	rest, err := at.take(u.RawQuery, map[string]*string{"queue": &at.queue, "search": &search, "tls": &at.tls})
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"search": search, "tls": at.tls} {
		if value != "" && value != "true" && value != "false" {
			return nil, misuse("%s: ?%s=%s is neither true nor false", given, name, value)
		}
	}
	at.search = search == "true"
	if _, err := url.Parse(at.String()); err != nil { // such as an IPv6 zone that no URL can name
		return nil, misuse("%s: not a URL of the form %s", given, temporalForm)
	}
	return at, at.unknown(rest, "queue, search and tls")
}

// parseDBOS reads what follows dbos:.
func parseDBOS(given, text string) (*hostAddress, error) {
	at := &hostAddress{given: given, kind: onDBOS}
	if strings.HasPrefix(text, "//") {
		text = "postgres:" + text
	}
	found := scheme.FindString(text)
	switch name := strings.ToLower(strings.TrimSuffix(found, ":")); name {
	case "sqlite":
		path, query, _ := strings.Cut(strings.TrimPrefix(text[len(found):], "//"), "?")
		if path == "" {
			return nil, misuse("%s: the path is empty", given)
		}
		at.place = "sqlite:" + filepath.Clean(path)
		rest, err := at.take(query, map[string]*string{"queue": &at.queue})
		if err != nil {
			return nil, err
		}
		return at, at.unknown(rest, "queue")
	case "postgres", "postgresql":
		u, err := url.Parse(text)
		if err != nil || u.Opaque != "" || u.Host == "" && u.Path == "" || u.Fragment != "" {
			return nil, misuse("%s: not a URL of the form dbos://HOST/DATABASE", given)
		}
		rest, err := at.take(u.RawQuery, map[string]*string{"queue": &at.queue, "schema": &at.schema})
		if err != nil {
			return nil, err
		}
		u.RawQuery = rest.Encode()
		at.place = u.String()
		return at, nil
	case "":
		return nil, misuse("%s: not a URL of one of the forms %s", given, dbosForm)
	default:
		return nil, misuse("%s: %q is no kind of database; DBOS has sqlite: and postgres:", given, name)
	}
}

// take reads the parameters of a URL that are for this program, and returns the others.
func (at *hostAddress) take(query string, known map[string]*string) (url.Values, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, misuse("%s: the part after ? is not of the form name=value&…", at.given)
	}
	for name, into := range known {
		if values.Has(name) && values.Get(name) == "" {
			return nil, misuse("%s: ?%s= names nothing", at.given, name)
		}
		*into = values.Get(name)
		values.Del(name)
	}
	return values, nil
}

// unknown refuses parameters that are nobody's.
func (at *hostAddress) unknown(rest url.Values, known string) error {
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		return misuse("%s: there is no parameter %q, only %s", at.given, name, known)
	}
	return nil
}

// String returns the address as it may be shown: without a password; nothing for no host.
func (at *hostAddress) String() string {
	if at == nil {
		return ""
	}
	query := url.Values{}
	for name, value := range map[string]string{"queue": at.queue, "schema": at.schema, "tls": at.tls} {
		if value != "" {
			query.Set(name, value)
		}
	}
	text := "dbos:" + at.place
	switch {
	case at.kind == onTemporal:
		if at.search {
			query.Set("search", "true")
		}
		text = (&url.URL{Scheme: "temporal", Host: at.place, Path: "/" + at.namespace}).String()
	case at.database() == inPostgres:
		text = "dbos:" + strings.TrimPrefix((&address{kind: inPostgres, place: at.place}).String(), "postgres:")
	}
	if len(query) == 0 {
		return text
	}
	separator := "?"
	if strings.Contains(text, "?") {
		separator = "&"
	}
	return text + separator + query.Encode()
}

// database returns the kind of DBOS's database.
func (at *hostAddress) database() kind {
	if strings.HasPrefix(at.place, "sqlite:") {
		return inFile
	}
	return inPostgres
}

// option returns the flag, as it is typed, that names the host to another command; nothing for no host.
func (at *hostAddress) option() string {
	if at == nil {
		return ""
	}
	return " --host " + quoted(at.String())
}

// reach is how long a host may take to be connected to.
const reach = 10 * time.Second

// hostLease is how long a session stays with whatever drives it on a host, if the host does not say that it still does. It is
// longer than the 11 seconds that Temporal takes to try again what a process did that died.
const hostLease = 15 * time.Second

// hosting is a host that this process is connected to.
type hosting struct {
	engine.Host
	// serve has this process carry out, in an engine, what runs ask for. rest ends that while the engine is still open; nil if
	// the engine's own end is enough.
	serve func(*engine.Engine) error
	rest  func()
	// close is called after the engine's own.
	close func(context.Context) error
}
