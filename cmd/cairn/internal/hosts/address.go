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

// Address is where a host is.
type Address struct {
	Given string // what on the command line or in the environment named it, for errors
	kind  kind
	// place is a Temporal server's HOST:PORT, or what DBOS takes for its database. What the URL leaves out of
	// Temporal's place and namespace is empty until connect finds it in the settings of Temporal's own tools.
	place     string
	namespace string
	tls       string // of the connection to Temporal: true or false; empty for what its settings say
	queue     string // also what the ids of Temporal's workflows begin with; empty for the default one
	schema    string // of DBOS's tables in PostgreSQL; empty for the default one
	search    bool   // Temporal's workflows have search attributes
}

// String returns the address as it may be shown: without a password; nothing for no host.
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

// Option returns the flag, as it is typed, that names the host to another command; nothing for no host.
func (at *Address) Option() string {
	if at == nil {
		return ""
	}
	return " --host " + cli.Quoted(at.String())
}
