// Package console is a console for the people around agents: operators, reviewers and end users. It is an [http.Handler]
// that serves pages of plain ES modules, without a build step. In the browser they use only the public HTTP API of package
// server, with the rights of the signed-in user, and load nothing from another host.
package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
)

//go:embed web
var files embed.FS

// policy lets the pages run their own scripts and styles, and connect to their own host only. Pictures of messages are
// data: addresses. Nothing may frame the pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Options configure the console. The zero value has the defaults.
type Options struct {
	// API is the address of the HTTP API, relative to the root of the console, such as "../" or "/agents/". It has the
	// host of the console: the policy of the pages allows no other. The default is "../".
	API string
	// Title is the title of a page before it knows its own. The default is "Cairn".
	Title string
	// Links lets an address of the console sign a browser in: its fragment is #link= and credentials for the API, which the
	// page exchanges for the cookie of package server's SignIn. Such credentials should work once. Without Links, which
	// is the default, nobody can sign a browser in as another user by sending a link.
	Links bool
	// Provider is the name of an identity provider that signs users in, such as "Example". The page of the sign-in then
	// leads to oidc/begin below the console, where package server/oidcauth serves the sign-in. Empty means that no provider does.
	Provider string
}

// New returns a handler that serves the console below the path "/"; opts may be nil. Mount it below any other path with
// [http.StripPrefix], with a slash at the end:
//
//	mux.Handle("/console/", http.StripPrefix("/console", console.New(nil)))
//
// All addresses in its pages are relative, so it needs no setting behind a proxy that changes the path. The handler
// authenticates nobody: its files are the same for everyone, and the API checks each request of its pages. New panics if
// opts.API is not a path.
func New(opts *Options) http.Handler {
	h := &handler{page: template.Must(template.ParseFS(files, "web/index.html")), opts: Options{API: "../", Title: "Cairn"}}
	if opts != nil && opts.API != "" {
		h.opts.API = opts.API
	}
	if opts != nil && opts.Title != "" {
		h.opts.Title = opts.Title
	}
	if opts != nil {
		h.opts.Links, h.opts.Provider = opts.Links, opts.Provider
	}
	if u, err := url.Parse(h.opts.API); err != nil || u.IsAbs() || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || !strings.HasSuffix(u.Path, "/") {
		panic(fmt.Sprintf("console: API %q must be a path with a slash at its end", h.opts.API))
	}
	web, err := fs.Sub(files, "web")
	if err != nil {
		panic(err)
	}
	h.web = web
	return h
}

type handler struct {
	opts Options
	page *template.Template
	web  fs.FS
}

// ServeHTTP serves a file below static/, and the page for every other path.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	at := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if name, ok := strings.CutPrefix(at, "static/"); ok {
		h.file(w, r, name)
		return
	}
	// Ids in the path are escaped, so each slash is a level.
	var page bytes.Buffer
	err := h.page.Execute(&page, struct {
		Options
		Root string
	}{h.opts, strings.Repeat("../", strings.Count(at, "/"))})
	if err != nil {
		http.Error(w, "cannot render the page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // fails only if the client is gone
}

// types are the media types of the files, whatever the machine's own table has.
var types = map[string]string{".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func (h *handler) file(w http.ResponseWriter, r *http.Request, name string) {
	kind := types[path.Ext(name)]
	if kind == "" || !fs.ValidPath(name) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	http.ServeFileFS(w, r, h.web, name)
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "geolocation=(self), camera=(), microphone=()")
	h.Set("Cache-Control", "no-cache")
}
