package hosts

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/urls"
)

// temporalPort is a Temporal server's default port.
const temporalPort = "7233"

const (
	temporalForm = "temporal://HOST:PORT/NAMESPACE"
	dbosForm     = "dbos://HOST/DATABASE, dbos:sqlite:PATH"
)

// Parse reads the URL of a host.
func Parse(given, text string) (*Address, error) {
	name, rest := urls.Scheme(text)
	switch name {
	case "temporal":
		return parseTemporal(given, text)
	case "dbos":
		return parseDBOS(given, rest)
	case "":
		return nil, cli.Misuse("%s: must be a URL of one of the forms %s, %s", given, temporalForm, dbosForm)
	default:
		return nil, cli.Misuse("%s: unknown kind of host %q: must be temporal: or dbos:", given, name)
	}
}

func parseTemporal(given, text string) (*Address, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Hostname() == "" && u.Host != "" || u.Fragment != "" ||
		strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "[") {
		return nil, cli.Misuse("%s: must be a URL of the form %s", given, temporalForm)
	}
	if u.User != nil {
		return nil, cli.Misuse("%s: %s must not have a user", given, temporalForm)
	}
	at := &Address{Given: given, kind: onTemporal, namespace: strings.Trim(u.Path, "/")}
	if strings.Contains(at.namespace, "/") {
		return nil, cli.Misuse("%s: invalid namespace %q", given, at.namespace)
	}
	if u.Host != "" {
		at.place = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), temporalPort))
	}
	search := ""
	rest, err := at.take(u.RawQuery, map[string]*string{"queue": &at.queue, "search": &search, "tls": &at.tls})
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"search": search, "tls": at.tls} {
		if value != "" && value != "true" && value != "false" {
			return nil, cli.Misuse("%s: ?%s must be true or false, not %s", given, name, value)
		}
	}
	at.search = search == "true"
	if _, err := url.Parse(at.String()); err != nil { // such as an IPv6 zone that no URL can name
		return nil, cli.Misuse("%s: must be a URL of the form %s", given, temporalForm)
	}
	return at, at.unknown(rest, "queue, search, tls")
}

// parseDBOS parses what follows dbos:.
func parseDBOS(given, text string) (*Address, error) {
	at := &Address{Given: given, kind: onDBOS}
	if strings.HasPrefix(text, "//") {
		text = "postgres:" + text
	}
	name, rest := urls.Scheme(text)
	switch name {
	case "sqlite":
		path, query, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
		if path == "" {
			return nil, cli.Misuse("%s: path is empty", given)
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
			return nil, cli.Misuse("%s: must be a URL of the form dbos://HOST/DATABASE", given)
		}
		rest, err := at.take(u.RawQuery, map[string]*string{"queue": &at.queue, "schema": &at.schema})
		if err != nil {
			return nil, err
		}
		u.RawQuery = rest.Encode()
		at.place = u.String()
		return at, nil
	case "":
		return nil, cli.Misuse("%s: must be a URL of one of the forms %s", given, dbosForm)
	default:
		return nil, cli.Misuse("%s: unknown kind of database %q: must be sqlite: or postgres:", given, name)
	}
}

// take reads this program's parameters from a query, and returns the others.
func (at *Address) take(query string, known map[string]*string) (url.Values, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, cli.Misuse("%s: the part after ? must have the form name=value&…", at.Given)
	}
	for name, into := range known {
		if values.Has(name) && values.Get(name) == "" {
			return nil, cli.Misuse("%s: ?%s= is empty", at.Given, name)
		}
		*into = values.Get(name)
		values.Del(name)
	}
	return values, nil
}

// unknown rejects parameters that neither this program nor a driver knows.
func (at *Address) unknown(rest url.Values, known string) error {
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		return cli.Misuse("%s: unknown parameter %q: must be one of %s", at.Given, name, known)
	}
	return nil
}
