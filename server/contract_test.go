package server

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"mime"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/schema"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/wire"
)

// contract checks the requests and responses of a handler against its OpenAPI document.
type contract struct {
	t     testing.TB
	paths map[string]map[string]struct {
		RequestBody *struct{ Content content }
		Responses   map[string]struct{ Content content }
	}
	defs json.RawMessage
}

type content map[string]struct{ Schema json.RawMessage }

// strictly is the document in which objects have no properties except those that it names.
var strictly = sync.OnceValues(func() ([]byte, error) { return openAPI(routes(), true, true) })

// schemas caches the parsed schemas of the document by their text.
var schemas sync.Map

// documented is the parsed document, which all contracts share.
var documented = sync.OnceValues(func() (c contract, err error) {
	doc, err := strictly()
	if err != nil {
		return c, err
	}
	var whole struct {
		Components struct{ Schemas json.RawMessage }
	}
	if err := json.Unmarshal(doc, &struct{ Paths any }{&c.paths}); err != nil {
		return c, err
	}
	err = json.Unmarshal(doc, &whole)
	c.defs = local(whole.Components.Schemas)
	return c, err
})

func newContract(t testing.TB) *contract {
	t.Helper()
	c, err := documented()
	if err != nil {
		t.Fatal(err)
	}
	c.t = t
	return &c
}

// local rewrites references to the document's components as references within a schema.
func local(raw json.RawMessage) json.RawMessage {
	return bytes.ReplaceAll(raw, []byte("#/components/schemas/"), []byte("#/$defs/"))
}

// fits returns the ways in which a JSON text violates a schema of the document.
func (c *contract) fits(what string, raw json.RawMessage, text []byte) {
	c.t.Helper()
	s, ok := schemas.Load(string(raw))
	if !ok {
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(local(raw), &whole); err != nil {
			c.t.Errorf("%s: the schema is %s: %v", what, raw, err)
			return
		}
		whole["$defs"] = c.defs
		all, _ := json.Marshal(whole)
		parsed, err := schema.Parse(all)
		if err != nil {
			c.t.Errorf("%s: %v", what, err)
			return
		}
		s, _ = schemas.LoadOrStore(string(raw), parsed)
	}
	if list := s.(*schema.Schema).Validate(text); len(list) > 0 {
		c.t.Errorf("%s is not as documented: %s\n%.2000s", what, strings.Join(list, "; "), text)
	}
}

// around returns a handler that checks each request and its response.
func (c *contract) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked bytes.Buffer
		if r.Body != http.NoBody { // which has no deadline
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &asked), r.Body}
		}
		out := &witness{ResponseWriter: w}
		cut := true
		defer func() {
			c.check(r, asked.Bytes(), out, cut)
			// A short response is sent only now. On a busy machine the check may have taken longer than its deadline.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
		}()
		h.ServeHTTP(out, r)
		cut = false
	})
}

// check checks one request. If it was cut, its last event may be missing.
func (c *contract) check(r *http.Request, asked []byte, out *witness, cut bool) {
	status := out.status()
	if r.Method == http.MethodOptions || cut && out.code == 0 || r.Context().Err() != nil && out.code == 0 {
		return
	}
	what := r.Method + " " + r.URL.Path + ": the answer " + strconv.Itoa(status)
	mediaType, _, _ := mime.ParseMediaType(out.Header().Get("Content-Type"))
	method, path, routed := strings.Cut(r.Pattern, " ")
	if !routed {
		c.problem(what, mediaType, out.body.Bytes())
		return
	}
	op, ok := c.paths[path][strings.ToLower(method)]
	if !ok {
		c.t.Errorf("%s: the route %s is not documented", what, r.Pattern)
		return
	}
	if status >= 400 {
		c.problem(what, mediaType, out.body.Bytes())
		return
	}
	if len(asked) > 0 && op.RequestBody == nil {
		c.t.Errorf("%s: a body of %s is not documented", what, r.Pattern)
	} else if len(asked) > 0 {
		c.fits(r.Method+" "+r.URL.Path+": the request", op.RequestBody.Content["application/json"].Schema, asked)
	}
	documented, ok := op.Responses[strconv.Itoa(status)]
	_, file := documented.Content["*/*"]
	switch in, has := documented.Content[mediaType]; {
	case !ok:
		c.t.Errorf("%s is not documented", what)
	case file || status == http.StatusNotModified: // any type
	case mediaType == "" && len(documented.Content) == 0:
		if out.body.Len() > 0 {
			c.t.Errorf("%s has a body: %s", what, &out.body)
		}
	case !has:
		c.t.Errorf("%s is %q, which is not documented", what, mediaType)
	case mediaType == "text/event-stream":
		for line := range strings.SplitSeq(out.body.String(), "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
				c.fits(what, in.Schema, []byte(data))
			}
		}
	default:
		c.fits(what, in.Schema, out.body.Bytes())
	}
}

func (c *contract) problem(what, mediaType string, body []byte) {
	if mediaType != "application/problem+json" {
		c.t.Errorf("%s is %q", what, mediaType)
		return
	}
	c.fits(what, json.RawMessage(`{"$ref":"#/components/schemas/Problem"}`), body)
}

// witness keeps a copy of a response.
type witness struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (w *witness) status() int {
	if w.code == 0 {
		return http.StatusOK
	}
	return w.code
}

func (w *witness) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *witness) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.body.Write(b[:n])
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *witness) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// An enumerated type has all values that the source has.
func TestEnumsAreWhole(t *testing.T) {
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../engine/advance.go")
	found := map[string][]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				if of, ok := v.Type.(*ast.Ident); ok && len(v.Values) == 1 {
					if text, ok := v.Values[0].(*ast.BasicLit); ok {
						if value, err := strconv.Unquote(text.Value); err == nil {
							found[of.Name] = append(found[of.Name], value)
						}
					}
				}
			}
		}
	}
	for _, reason := range found["Reason"] { // the status of a suspended run includes its reason
		if word := wire.RunStatus(cairn.RunSuspended, cairn.Reason(reason)); slices.Contains(enums[reflect.TypeFor[cairn.RunStatus]()], string(word)) {
			found["RunStatus"] = append(found["RunStatus"], string(word))
		}
	}
	for typ, values := range enums {
		if !reflect.DeepEqual(values, found[typ.Name()]) {
			t.Errorf("%s is documented as %q, the source has %q", typ, values, found[typ.Name()])
		}
	}
}

// The served document names every route, and each operation once.
func TestOpenAPI(t *testing.T) {
	w := newWorld(t, nil)
	doc := want[struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Security    []map[string][]string
			Parameters  []struct{ Name, In string }
		}
		Components struct{ Schemas map[string]json.RawMessage }
	}](w, 200, "", "GET", "/openapi.json", nil)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("it is of version %q", doc.OpenAPI)
	}
	ids := map[string]bool{}
	for _, rt := range routes() {
		op, ok := doc.Paths[rt.Path][strings.ToLower(rt.Method)]
		if !ok || ids[op.OperationID] || (len(op.Security) == 0) != rt.anonymous {
			t.Errorf("%s %s is documented as %+v", rt.Method, rt.Path, op)
		}
		ids[op.OperationID] = true
		for _, part := range strings.Split(rt.Path, "/") {
			name, is := strings.CutPrefix(part, "{")
			if is && !hasParameter(op.Parameters, strings.TrimSuffix(name, "}"), "path") {
				t.Errorf("%s %s lacks the parameter %s", rt.Method, rt.Path, part)
			}
		}
	}
	for name, s := range doc.Components.Schemas {
		for m := range bytes.SplitSeq(s, []byte(`"#/components/schemas/`)) {
			ref, _, _ := strings.Cut(string(m), `"`)
			if _, ok := doc.Components.Schemas[ref]; !ok && !bytes.HasPrefix(s, m) {
				t.Errorf("%s refers to %s, which is not there", name, ref)
			}
		}
	}
}

func hasParameter(list []struct{ Name, In string }, name, in string) bool {
	for _, p := range list {
		if p.Name == name && p.In == in {
			return true
		}
	}
	return false
}

// A client that is generated from the document completes a turn with an approval.
func TestGeneratedClient(t *testing.T) {
	w := newWorld(t, nil)
	got := strings.TrimSpace(string(testenv.Node(t, "testdata/generated.mjs", w.url, "a")))
	const want = `{"suspended":"suspended_client_tool","session":"paused","outcome":"accepted","ended":"completed",` +
		`"reply":"You said: ","missing":[404,"not_found"]}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
