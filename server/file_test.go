package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// files are the files that fileWorld's painter returns in its reply, in order.
var files = []cairn.File{
	{Name: "a \"tree\".png", MediaType: "image/png", Data: []byte("tree")},
	{Name: "page.html", MediaType: "text/html; charset=utf-8", Data: []byte("<script>alert(1)</script>")},
	{Name: "a.svg", MediaType: "image/svg+xml", Data: []byte("<svg/>")},
	{MediaType: "what\r\nX-Evil: 1", Data: []byte("?")},
	{MediaType: "image/png", URL: "https://a.example/b.png"},
}

// fileWorld is a server with alice's session "s", whose message 1 has the files.
func fileWorld(t *testing.T, opts *Options) *world {
	t.Helper()
	steps := []scripted.Step{scripted.Text("Here.")}
	for i := range files {
		steps = append(steps, scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &files[i]}))
	}
	w := newWorldOf(t, opts, &cairn.Agent{Name: "bot", Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if said := r.Messages[len(r.Messages)-1]; said.Text() != "draw" {
			var seen []string
			for _, p := range said.Parts {
				if p.File != nil {
					seen = append(seen, string(p.File.Data))
				}
			}
			return scripted.Text("I see " + strings.Join(seen, ", "))
		}
		return scripted.Reply(steps...)
	})})
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "draw"}}})
	w.settled("s")
	return w
}

const tree = "/sessions/s/messages/1/files/0"

// addressed returns the addresses of the files in alice's history.
func (w *world) addressed(token string) (list []string) {
	w.t.Helper()
	for _, m := range want[chatBody](w, 200, token, "GET", "/chat/s", nil).Messages {
		for _, p := range m.Parts {
			if p.Type == "file" {
				list = append(list, p.URL)
			}
		}
	}
	return list
}

// A file can be read by readers of its session. Only pictures are displayed in place; a browser runs no code of any
// file.
func TestFile(t *testing.T) {
	w := fileWorld(t, nil)
	for n, test := range []struct{ kind, disposition string }{
		{"image/png", `inline; filename="a \"tree\".png"`},
		{"text/html; charset=utf-8", "attachment; filename=page.html"},
		{"image/svg+xml", "attachment; filename=a.svg"},
		{"application/octet-stream", "attachment"},
	} {
		res, data := w.do("a", "GET", "/sessions/s/messages/1/files/"+strconv.Itoa(n), nil)
		if res.StatusCode != 200 || string(data) != string(files[n].Data) {
			t.Errorf("file %d: status %d: %q", n, res.StatusCode, data)
		}
		for name, wanted := range map[string]string{"Content-Type": test.kind, "Content-Disposition": test.disposition, "X-Evil": "",
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox", "Cache-Control": "private, no-cache"} {
			if got := res.Header.Get(name); got != wanted {
				t.Errorf("file %d: %s is %q, want %q", n, name, got, wanted)
			}
		}
	}
	for _, path := range []string{"/sessions/s/messages/1/files/4", "/sessions/s/messages/1/files/5", "/sessions/s/messages/0/files/0",
		"/sessions/s/messages/2/files/0", "/sessions/s/messages/-1/files/0", "/sessions/s/messages/1/files/-1", "/sessions/t/messages/1/files/0",
		tree + "?message_id=another"} {
		if res, data := w.do("a", "GET", path, nil); res.StatusCode != 404 {
			t.Errorf("%s: status %d: %s", path, res.StatusCode, data)
		}
	}
	for path, status := range map[string]int{"/sessions/s/messages/x/files/0": 400, "/sessions/s/messages/1/files/99999999999999999999": 400, tree + "?more=1": 400} {
		if res, data := w.do("a", "GET", path, nil); res.StatusCode != status {
			t.Errorf("%s: status %d: %s", path, res.StatusCode, data)
		}
	}
	hidden := cairn.Message{Role: cairn.RoleUser, Hidden: true, Parts: []cairn.Part{cairn.FilePart(files[0])}}
	run, err := w.eng.Execute(t.Context(), "s", "bot", cairn.Messages(hidden, cairn.User(cairn.TextPart("hi"))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res, data := w.do("a", "GET", "/sessions/s/messages/2/files/0", nil); res.StatusCode != 404 {
		t.Errorf("a file of a hidden message: status %d: %s", res.StatusCode, data)
	}
}

// A client that has a file does not receive it again, and a client can request a part of it.
func TestPartOfAFile(t *testing.T) {
	w := fileWorld(t, nil)
	ask := func(name, value string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+tree, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a")
		req.Header.Set(name, value)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(data)
	}
	first, _ := w.do("a", "GET", tree, nil)
	if res, data := ask("If-None-Match", first.Header.Get("Etag")); res.StatusCode != 304 || data != "" {
		t.Errorf("with its tag: status %d: %s", res.StatusCode, data)
	}
	if res, data := ask("Range", "bytes=1-2"); res.StatusCode != 206 || data != "re" {
		t.Errorf("a range: status %d: %s", res.StatusCode, data)
	}
	if res, data := ask("Range", "bytes=0-0,2-2"); res.StatusCode != 200 || data != "tree" {
		t.Errorf("several ranges: status %d: %s", res.StatusCode, data)
	}
	if res, data := ask("Range", "bytes=100-"); res.StatusCode != 416 || !strings.Contains(data, "range_not_satisfiable") {
		t.Errorf("a range that is not there: status %d: %s", res.StatusCode, data)
	}
}

// A signed address opens its file without credentials, at any process with the store, and nothing else.
func TestSignedAddress(t *testing.T) {
	w := fileWorld(t, nil)
	list := w.addressed("a")
	if len(list) != len(files) || list[4] != files[4].URL {
		t.Fatalf("got %v", list)
	}
	other, err := New(w.eng, &Options{Authenticate: Tokens(nil)})
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	if other.ServeHTTP(rec, httptest.NewRequest("GET", list[0], nil)); rec.Code != 200 || rec.Body.String() != "tree" {
		t.Errorf("another process: status %d: %s", rec.Code, rec.Body)
	}
	res, data := w.do("", "GET", list[0], nil)
	if res.StatusCode != 200 || string(data) != "tree" || res.Header.Get("Cache-Control") != "private, max-age=86400, immutable" {
		t.Fatalf("status %d: %s, %v", res.StatusCode, data, res.Header)
	}
	day := time.Now().UTC().Day()
	if once, again := w.addressed("a"), w.addressed("a"); !slices.Equal(once, again) && time.Now().UTC().Day() == day {
		t.Errorf("the addresses are %v and then %v", once, again)
	}
	address, err := url.Parse(list[0])
	if err != nil {
		t.Fatal(err)
	}
	expires, err := strconv.ParseInt(address.Query().Get("expires"), 10, 64)
	if left := time.Until(time.Unix(expires, 0)); err != nil || left < 23*time.Hour || left > 48*time.Hour {
		t.Errorf("it is good for %v", left)
	}
	changed := func(name, value string) string {
		q := address.Query()
		q.Set(name, value)
		return address.Path + "?" + q.Encode()
	}
	want[cairn.Session](w, 201, "e", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "t", Agent: "bot"}})
	past := strconv.FormatInt(time.Now().Unix()-1, 10)
	id := address.Query().Get("message_id")
	for name, path := range map[string]string{
		"another file":      strings.Replace(list[0], "files/0", "files/1", 1),
		"another message":   strings.Replace(list[0], "messages/1", "messages/0", 1),
		"another session":   strings.Replace(list[0], "sessions/s", "sessions/t", 1),
		"another id":        changed("message_id", "x"),
		"no id":             changed("message_id", ""),
		"a later end":       changed("expires", strconv.FormatInt(expires+1, 10)),
		"no end":            changed("expires", ""),
		"another signature": changed("signature", "x"),
		"no signature":      changed("signature", ""),
		"after its end": tree + "?" + url.Values{"message_id": {id}, "expires": {past},
			"signature": {signature(*w.h.fileKey.Load(), "s", "1", "0", id, past)}}.Encode(),
	} {
		if res, data := w.do("", "GET", path, nil); res.StatusCode != 404 {
			t.Errorf("%s: status %d: %s", name, res.StatusCode, data)
		}
	}
	for _, path := range []string{"/sessions/s", "/sessions/s/messages", "/sse?session_id=s&", "/chat/s"} {
		if res, _ := w.do("", "GET", path+"?"+address.RawQuery, nil); res.StatusCode != 401 {
			t.Errorf("%s with a signature: status %d", path, res.StatusCode)
		}
	}
	if err := w.eng.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if res, data := w.do("", "GET", list[0], nil); res.StatusCode != 404 {
		t.Errorf("of a session that was deleted: status %d: %s", res.StatusCode, data)
	}
}

// An address works for the client that receives it: below the path where the server is mounted, from a page of
// another origin, and behind a proxy that names another address.
func TestAddressOfTheServer(t *testing.T) {
	w := fileWorld(t, &Options{AllowUnauthenticated: true, Origins: []string{"https://app.example.com"}})
	proxied, err := New(w.eng, &Options{AllowUnauthenticated: true, URL: "https://example.com/agents/"})
	if err != nil {
		t.Fatal(err)
	}
	message := w.addressed("")[0][len(tree):]
	if !strings.HasPrefix(message, "?message_id=") || strings.Contains(message, "signature") {
		t.Errorf("for everybody: %s", message)
	}
	for _, test := range []struct {
		name   string
		h      http.Handler
		path   string
		origin string
		want   string
	}{
		{"at the root", w.h, "/chat/s", "", tree},
		{"below a path", http.StripPrefix("/site/agents", w.h), "/site/agents/chat/s?version=7", "", "/site/agents" + tree},
		{"the page's own origin", w.h, "/chat/s", "http://example.com", tree},
		{"another origin", w.h, "/chat/s", "https://app.example.com", "http://example.com" + tree},
		{"an origin that is none", w.h, "/chat/s", "null", tree},
		{"behind a proxy", proxied, "/chat/s", "", "https://example.com/agents" + tree},
	} {
		req := httptest.NewRequest("GET", test.path, nil)
		if test.origin != "" {
			req.Header.Set("Origin", test.origin)
		}
		rec := httptest.NewRecorder()
		test.h.ServeHTTP(rec, req)
		if wanted := `"` + test.want + message + `"`; rec.Code != 200 || !strings.Contains(rec.Body.String(), wanted) {
			t.Errorf("%s: status %d: %s, want %s", test.name, rec.Code, rec.Body, wanted)
		}
	}
	for _, bad := range []string{"example.com", "ftp://example.com", "https://", "https://example.com?a=b", "https://a:b@example.com"} {
		if _, err := New(w.eng, &Options{AllowUnauthenticated: true, URL: bad}); err == nil || !strings.Contains(err.Error(), "URL") {
			t.Errorf("the address %q: %v", bad, err)
		}
	}
}

// A page that edits a message posts the addresses of its files back. The model receives the files.
func TestFilesArePostedBack(t *testing.T) {
	w := fileWorld(t, nil)
	address := w.addressed("a")[0]
	say := func(id, edited string, file string) (*http.Response, string) {
		body := map[string]any{"id": "s", "messages": []any{map[string]any{"id": id, "role": "user", "parts": []any{
			map[string]any{"type": "text", "text": "look"}, map[string]any{"type": "file", "mediaType": "image/png", "url": file}}}}}
		if edited != "" {
			body["messageId"] = edited
		}
		res, data := w.do("a", "POST", "/chat", body)
		if res.StatusCode != 200 {
			return res, string(data)
		}
		list := want[messagesBody](w, 200, "a", "GET", "/sessions/s/messages", nil).Items
		return res, list[len(list)-1].Text()
	}
	if res, data := say("one", "", address); data != "I see tree" {
		t.Fatalf("status %d: %s", res.StatusCode, data)
	}
	list := w.addressed("a")
	if res, data := say("one", "one", list[len(list)-1]); data != "I see tree" {
		t.Errorf("edited: status %d: %s", res.StatusCode, data)
	}
	before, err := w.eng.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file   string
		status int
	}{
		"of another session": {strings.Replace(address, "sessions/s", "sessions/t", 1), 400},
		"that is not there":  {strings.Replace(address, "messages/1", "messages/9", 1), 404},
		"of another message": {strings.Replace(address, "message_id=", "message_id=x", 1), 404},
	} {
		if res, data := say("two", "", test.file); res.StatusCode != test.status {
			t.Errorf("a file %s: status %d: %s", name, res.StatusCode, data)
		}
	}
	body := map[string]any{"id": "new", "messages": []any{map[string]any{"id": "one", "role": "user", "parts": []any{
		map[string]any{"type": "file", "mediaType": "image/png", "url": "/sessions/new/messages/0/files/0"}}}}}
	if res, data := w.do("a", "POST", "/chat", body); res.StatusCode != 404 {
		t.Errorf("a file of a new session: status %d: %s", res.StatusCode, data)
	}
	if _, err := w.eng.Session(t.Context(), "new"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("the new session: %v", err)
	}
	if after, err := w.eng.Session(t.Context(), "s"); err != nil || after.Version != before.Version {
		t.Errorf("the session has changed: %v, %v", after, err)
	}
}

// If several processes create the key at the same moment, one wins. A record that is not a key is an error, so that
// no address signed with less can be opened.
func TestKeyOfFiles(t *testing.T) {
	w := fileWorld(t, nil)
	key := func() ([]byte, error) {
		h, err := New(w.eng, &Options{Authenticate: Tokens(nil)})
		if err != nil {
			t.Fatal(err)
		}
		return h.signingKey(t.Context())
	}
	var all sync.WaitGroup
	list := make([]string, 8)
	for i := range list {
		all.Go(func() {
			k, err := key()
			if err != nil || len(k) != 32 {
				t.Errorf("a key of %d bytes, %v", len(k), err)
			}
			list[i] = string(k)
		})
	}
	all.Wait()
	if slices.Sort(list); list[0] != list[len(list)-1] {
		t.Errorf("the processes have several keys")
	}
	for _, bad := range []string{`"eA=="`, "1", "null"} {
		write := store.RecordWrite{Namespace: serverRecords, Key: fileKeyRecord, Value: []byte(bad), Seen: store.AnyVersion}
		if _, err := w.eng.Records().Put(t.Context(), write); err != nil {
			t.Fatal(err)
		}
		if k, err := key(); !errors.Is(err, cairn.ErrCorrupt) {
			t.Errorf("of %s the key is %v, %v", bad, k, err)
		}
		w.h.fileKey.Store(nil)
		if address := w.addressed("a")[0]; strings.Contains(address, "signature") {
			t.Errorf("with the key %s the address is %s", bad, address)
		}
	}
}

// The address of a file that a user posts is shown if it is a web address. Any other is replaced, as a model's is, so
// that nobody who reads the conversation opens it.
func TestAddressesOfUsersAreSafe(t *testing.T) {
	for address, shown := range map[string]string{
		"https://a.example/b.png":         "https://a.example/b.png",
		"HTTP://a.example/b.png":          "HTTP://a.example/b.png",
		"javascript:alert(1)":             "about:blank",
		"JavaScript:alert(1)":             "about:blank",
		"java\tscript:alert(1)":           "about:blank",
		" javascript:alert(1)":            "about:blank",
		"javascript://a.example/%0aalert": "about:blank",
		"vbscript:x":                      "about:blank",
		"file:///etc/passwd":              "about:blank",
		"blob:https://a.example/x":        "about:blank",
		"about:config":                    "about:blank",
		"cairn:secret":                    "about:blank",
		"//a.example/b.png":               "about:blank",
		"/sessions":                       "about:blank",
		"https://a.example/\nb":           "about:blank",
		"https://a.example/\u0085":        "about:blank",
		"https://":                        "about:blank",
	} {
		w := newWorld(t, nil)
		body := map[string]any{"id": "s", "messages": []any{map[string]any{"id": "m", "role": "user", "parts": []any{
			map[string]any{"type": "file", "mediaType": "image/png", "url": address}}}}}
		if res, data := w.do("a", "POST", "/chat", body); res.StatusCode != 200 {
			t.Fatalf("%q: status %d: %s", address, res.StatusCode, data)
		}
		if got := w.addressed("a"); len(got) != 1 || got[0] != shown {
			t.Errorf("%q is shown as %q, want %q", address, got, shown)
		}
	}
}

// A file in a "data:" URL, in whatever case, is kept as bytes and shown at an address of the server, which runs no
// code of it.
func TestDataURLsBecomeFiles(t *testing.T) {
	w := newWorld(t, nil)
	post := func(url string) (int, string) {
		res, data := w.do("a", "POST", "/chat", map[string]any{"id": "s", "messages": []any{map[string]any{"id": url, "role": "user", "parts": []any{
			map[string]any{"type": "file", "mediaType": "text/html", "url": url}}}}})
		return res.StatusCode, string(data)
	}
	for _, url := range []string{"data:text/html;base64,PGI+", "DATA:text/html;base64,PGI+"} {
		if status, text := post(url); status != 200 {
			t.Fatalf("%s: status %d: %s", url, status, text)
		}
	}
	for _, url := range []string{"data:text/html,<b>", "Data:text/html,<b>"} {
		if status, text := post(url); status != 400 {
			t.Errorf("%s: status %d: %s", url, status, text)
		}
	}
	for _, address := range w.addressed("a") {
		res, data := w.do("", "GET", address, nil)
		if res.StatusCode != 200 || string(data) != "<b>" || res.Header.Get("Content-Disposition") != "attachment" {
			t.Errorf("%s: %d %q %v", address, res.StatusCode, data, res.Header)
		}
	}
}
