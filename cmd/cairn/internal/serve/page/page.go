// Package page serves a small browser page that talks to assistants over the server's own routes. It is plain HTML,
// CSS and ES modules, without a build step and without resources from other hosts.
package page

import (
	"embed"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/cairn-agents/cairn/server"
)

//go:embed web
var files embed.FS

// policy lets the page run its own scripts and connect to its own server only, and forbids framing.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Assistant is an assistant that the page offers.
type Assistant struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Options configure the page.
type Options struct {
	// Authenticate returns who makes a request; nil serves everyone.
	Authenticate server.Authenticator
	// Assistants returns the assistants that the page offers.
	Assistants func() []Assistant
}

// Handler serves the page at / and its files below /page/, and passes any other path to next.
func Handler(next http.Handler, opts Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /{$}", file("index.html"))
	mux.HandleFunc("GET /page/{file}", func(w http.ResponseWriter, r *http.Request) { file(r.PathValue("file"))(w, r) })
	mux.HandleFunc("GET /page/assistants", func(w http.ResponseWriter, r *http.Request) { assistants(w, r, opts) })
	return mux
}

// file serves a file of the page.
func file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if strings.ContainsAny(name, "/\\") {
			http.NotFound(w, r)
			return
		}
		http.ServeFileFS(w, r, files, "web/"+name)
	}
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "geolocation=(self), camera=(), microphone=()")
	h.Set("Cache-Control", "no-cache")
}

// assistants lists the assistants to users of the server; 401 asks for a token.
func assistants(w http.ResponseWriter, r *http.Request, opts Options) {
	secure(w.Header())
	if opts.Authenticate != nil {
		p, err := opts.Authenticate(r)
		switch {
		case err != nil:
			http.Error(w, "cannot authenticate the request", http.StatusServiceUnavailable)
			return
		case p == nil:
			http.Error(w, "a token is required", http.StatusUnauthorized)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(opts.Assistants()) // fails only if the client is gone
}
