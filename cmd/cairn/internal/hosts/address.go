package hosts

import (
	"net/url"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/urls"
)

// kind is a kind of host.
type kind int

const (
	onTemporal kind = iota
	onDBOS
)

// Address is the address of a host.
type Address struct {
	Given string // the flag or variable that named it, for errors
	kind  kind
	// place is a Temporal server's HOST:PORT, or a database address for DBOS. If the URL leaves out Temporal's
	// place or namespace, it is empty until connect reads it from the settings of Temporal's own tools.
	place     string
	namespace string
	tls       string // TLS to Temporal: true or false; empty for what its settings say
	queue     string // also the prefix of Temporal's workflow ids; empty for the default
	schema    string // schema of DBOS's tables in PostgreSQL; empty for the default
	search    bool   // Temporal's workflows have search attributes
}

// String returns the address without a password; empty for no host.
func (at *Address) String() string {
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
	case !strings.HasPrefix(at.place, "sqlite:"):
		text = "dbos:" + strings.TrimPrefix(urls.Redacted(at.place, nil), "postgres:")
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

// Option returns the flag, in shell syntax, that names the host to another command; empty for no host.
func (at *Address) Option() string {
	if at == nil {
		return ""
	}
	return " --host " + cli.Quoted(at.String())
}
