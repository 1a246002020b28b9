package export_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/export"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

type lookup struct {
	Name string `json:"name"`
}

// said makes an engine with a session "s" that has a text in each place where a text can be: what people, models and tools
// said, arguments, results, errors, instructions, files, titles, tags, metadata, scores, and those of a sub-agent.
func said(t testing.TB, text string) *engine.Engine {
	t.Helper()
	find := cairn.Func("find", "Finds "+text, func(ctx context.Context, call *cairn.Call, in lookup) (map[string]any, error) {
		if err := call.Publish(ctx, "report.csv", "text/csv", strings.NewReader(text)); err != nil {
			return nil, err
		}
		return map[string]any{"found": text, text: in.Name, "list": []any{1, text}}, nil
	})
	fail := cairn.Func("fail", "", func(context.Context, *cairn.Call, lookup) (string, error) {
		return "", errors.New("the password is " + text)
	})
	helper := &cairn.Agent{Name: "helper", Description: "Helps.", Instructions: "You help with " + text, Model: scripted.New(scripted.Text("Helped with " + text))}
	a := &cairn.Agent{Name: "clerk", Instructions: "You know " + text, Tools: []cairn.Tool{find, fail, cairn.SubAgent(helper)}, Model: scripted.New(
		scripted.Reply(scripted.Call("find", lookup{text}).ID("c1"), scripted.Call("fail", lookup{text}).ID("c2")),
		scripted.Call("helper", map[string]string{"input": "Help with " + text}).ID("c3"),
		scripted.Text("The answer is "+text))}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{a}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	picture := cairn.File{Name: "picture of " + text, MediaType: "image/png", Data: []byte("tree")}
	ctx := context.Background()
	run, err := eng.Execute(ctx, "s", "clerk", cairn.Messages(cairn.User(cairn.TextPart("Find "+text), cairn.FilePart(picture))), engine.WithUser("user of "+text))
	if err == nil {
		_, err = run.Wait(ctx)
	}
	if err == nil {
		err = eng.AddContext(ctx, "s", "Context about "+text)
	}
	if err == nil {
		_, err = eng.SetContext(ctx, "s", store.ContextChange{Title: new("About " + text), Tags: &[]string{"tag of " + strings.Map(printable, text) + "."}, Metadata: cairn.Metadata{"note": text}})
	}
	if err == nil {
		_, err = eng.Score(ctx, cairn.Score{SessionID: "s", Value: 0.5, Comment: "Good for " + text, By: "ann"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

// printable drops characters that tags do not have.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

func line(t testing.TB, eng *engine.Engine, opts *export.Options) string {
	t.Helper()
	var b strings.Builder
	if err := export.Session(context.Background(), eng, &b, "s", opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func page(t testing.TB, eng *engine.Engine, opts *export.Options) string {
	t.Helper()
	var b strings.Builder
	if err := export.HTML(context.Background(), eng, &b, "s", opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// object is a decoded object of a line.
type object = map[string]any

func decoded(t testing.TB, line string) (o object) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &o); err != nil || strings.Count(line, "\n") != 1 {
		t.Fatalf("not a line of JSON: %v: %s", err, line)
	}
	return o
}

func objects(v any) (list []object) {
	items, _ := v.([]any)
	for _, item := range items {
		list = append(list, item.(object))
	}
	return list
}

// A line has the messages in the shape of chat completions, with what the model was given, what it cost and how it was
// judged, and the sessions below it.
func TestLine(t *testing.T) {
	t.Parallel()
	o := decoded(t, line(t, said(t, "42"), nil))
	var roles []string
	for _, m := range objects(o["messages"]) {
		roles = append(roles, m["role"].(string))
	}
	if want := []string{"system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user"}; !slices.Equal(roles, want) {
		t.Fatalf("the roles are %q, want %q", roles, want)
	}
	for path, want := range map[string]string{
		"messages.0.content":                          `"You know 42"`,
		"messages.1.content.0":                        `{"text":"Find 42","type":"text"}`,
		"messages.1.content.1":                        `{"image_url":{"url":"data:image/png;base64,dHJlZQ=="},"type":"image_url"}`,
		"messages.2.content":                          `null`,
		"messages.2.tool_calls.0":                     `{"function":{"arguments":"{\"name\":\"42\"}","name":"find"},"id":"c1","type":"function"}`,
		"messages.3.tool_call_id":                     `"c1"`,
		"messages.3.content":                          `"{\"42\":\"42\",\"found\":\"42\",\"list\":[1,\"42\"]}"`,
		"messages.3.artifacts.0":                      `{"media_type":"text/csv","name":"report.csv","size":2}`,
		"messages.4.is_error":                         `true`,
		"messages.4.name":                             `"fail"`,
		"messages.4.content":                          `"the password is 42"`,
		"messages.7.content":                          `"The answer is 42"`,
		"messages.8.hidden":                           `true`,
		"tools.0.function.name":                       `"find"`,
		"tools.0.type":                                `"function"`,
		"tools.0.function.parameters.properties.name": `{"type":"string"}`,
		"scores.0.value":                              `0.5`,
		"usage.tool_calls":                            `3`,
		"metadata":                                    `{"note":"42"}`,
		"tags":                                        `["tag of 42."]`,
		"user_id":                                     `"user of 42"`,
		"runs.0.status":                               `"completed"`,
		"children.0.agent":                            `"helper"`,
		"children.0.parent_id":                        `"s"`,
		"children.0.messages.1.content":               `"Help with 42"`,
		"children.0.messages.2.content":               `"Helped with 42"`,
		"children.0.kind":                             `"sub_agent"`,
		"children.0.children":                         `[]`,
	} {
		var v any = o
		for name := range strings.SplitSeq(path, ".") {
			switch at := v.(type) {
			case object:
				v = at[name]
			case []any:
				n := int(name[0] - '0')
				if v = nil; n < len(at) {
					v = at[n]
				}
			}
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil || strings.TrimSpace(b.String()) != want {
			t.Errorf("%s is %s, want %s", path, b.String(), want)
		}
	}
}

// A public export has only what the session's user may see.
func TestPublic(t *testing.T) {
	t.Parallel()
	eng := said(t, "42")
	for name, text := range map[string]string{"line": line(t, eng, &export.Options{Public: true}), "page": page(t, eng, &export.Options{Public: true})} {
		for _, secret := range []string{"You know", "password", "Context about", "Finds 42", "You help"} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s has %q", name, secret)
			}
		}
		for _, shown := range []string{"Find 42", "The answer is 42", "Helped with 42", "the tool failed"} {
			if !strings.Contains(text, shown) {
				t.Errorf("the %s lacks %q", name, shown)
			}
		}
	}
}

// Redaction reaches each text, number and name, and leaves out files. Its error ends the export.
func TestRedact(t *testing.T) {
	t.Parallel()
	const secret = "4111111111111111"
	eng := said(t, secret)
	card := regexp.MustCompile(`4\d{15}`)
	redact := func(text string) (string, error) { return card.ReplaceAllString(text, "[card]"), nil }
	for name, text := range map[string]string{"line": line(t, eng, &export.Options{Redact: redact}), "page": page(t, eng, &export.Options{Redact: redact})} {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("the %s has the secret: …%s…", name, text[max(0, at-100):at+20])
		}
		if n := strings.Count(text, "[card]"); n < 15 {
			t.Errorf("the %s has %d redacted texts", name, n)
		}
		if strings.Contains(text, "dHJlZQ") {
			t.Errorf("the %s has a file", name)
		}
	}
	numbers, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "bot", Model: scripted.New(scripted.Call("pay", map[string]any{"card": json.Number(secret), "n": 1}), scripted.Text("Paid.")),
		Tools: []cairn.Tool{cairn.Func("pay", "", func(context.Context, *cairn.Call, map[string]any) (string, error) { return "", nil })}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = numbers.Close(context.Background()) })
	run, err := numbers.Execute(t.Context(), "s", "bot", cairn.Text("Pay."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := line(t, numbers, &export.Options{Redact: redact}); strings.Contains(got, secret) || !strings.Contains(got, `{\"card\":\"[card]\",\"n\":1}`) {
		t.Errorf("a number is exported as %s", got)
	}
	lost := errors.New("lost")
	fails := &export.Options{Redact: func(text string) (string, error) { return text, lost }}
	if err := export.Session(t.Context(), eng, io.Discard, "s", fails); !errors.Is(err, lost) {
		t.Errorf("error %v", err)
	}
	if err := export.HTML(t.Context(), eng, io.Discard, "s", fails); !errors.Is(err, lost) {
		t.Errorf("error %v", err)
	}
}

var tag = regexp.MustCompile(`<[^>]*>`)

// tags returns the tags of a page, without the texts in their attributes.
func tags(page string) []string {
	list := tag.FindAllString(page, -1)
	for i := range list {
		list[i] = regexp.MustCompile(`alt="[^"]*"`).ReplaceAllString(list[i], "alt")
	}
	return list
}

// The page runs nothing and asks for nothing: its policy allows only its own style and images, and it has no links.
func TestPage(t *testing.T) {
	t.Parallel()
	text := page(t, said(t, "a<b \u202eevil\u2066 \x1b[31m 👩\u200d🚀"), nil)
	_, rest, _ := strings.Cut(text, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'"
	if !strings.Contains(html.UnescapeString(text), `http-equiv="Content-Security-Policy" content="`+policy+`"`) {
		t.Errorf("the page lacks the policy %s:\n%.500s", policy, text)
	}
	for _, want := range []string{"a&lt;b ⟦U&#43;202E⟧evil⟦U&#43;2066⟧ ⟦U&#43;001B⟧[31m 👩\u200d🚀", `<img src="data:image/png;base64,dHJlZQ==" alt="picture of `, "Result of find", "Calls fail", "<h2", "helper"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, refused := range []string{"<script", "href", "javascript", "http:", "\u202e", "\x1b", "@import", "url("} {
		if strings.Contains(strings.ToLower(text), refused) {
			t.Errorf("the page has %q", refused)
		}
	}
	for _, element := range []string{"section", "details", "article", "main", "pre"} {
		if open, closed := strings.Count(text, "<"+element), strings.Count(text, "</"+element+">"); open != closed || open == 0 {
			t.Errorf("%d <%s>, %d closed", open, element, closed)
		}
	}
}

// No text of a session changes the elements of its page.
func FuzzPage(f *testing.F) {
	plain := tags(page(f, said(f, "x"), nil))
	for _, text := range []string{"</pre><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "<!--", "]]>", "{{.}}", "javascript:alert(1)", "' onmouseover='x", "\u2028", "</title></style>", "&lt;", "\\u003cscript", "data:text/html,x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = "x" + text
		if cairn.CheckText("text", text) != nil || len(text) > 50 {
			t.Skip()
		}
		if got := tags(page(t, said(t, text), nil)); !slices.Equal(got, plain) {
			t.Errorf("with %q the page has the tags %q, want %q", text, got, plain)
		}
	})
}

// rewinds rewinds a session when something is written.
type rewinds struct {
	eng        *engine.Engine
	checkpoint string
	done       bool
}

func (w *rewinds) Write(p []byte) (int, error) {
	if !w.done {
		w.done = true
		if _, err := w.eng.Rewind(context.Background(), "s", w.checkpoint); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// All sessions that a query selects are exported whole, in several pages; a session that was rewound meanwhile is not
// exported as a mixture.
func TestManyLongSessions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 300)
	a := &cairn.Agent{Name: "bot", Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		return scripted.Text(fmt.Sprintf("Reply %d %s", len(req.Messages), long))
	})}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{a}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	turn := func(id, user string) {
		t.Helper()
		run, err := eng.Execute(t.Context(), id, "bot", cairn.Text("Hello."), engine.WithUser(user))
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		turn(fmt.Sprintf("of-ann-%d", i), "ann")
	}
	turn("of-bob", "bob")
	turn("s", "cid")
	cp, err := eng.Checkpoint(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	for range 59 {
		turn("s", "cid")
	}
	var b strings.Builder
	if err := export.Sessions(t.Context(), eng, &b, store.SessionQuery{UserID: "ann"}, nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 60 || strings.Contains(b.String(), "of-bob") {
		t.Errorf("%d lines", len(lines))
	}
	o := decoded(t, line(t, eng, nil))
	messages := objects(o["messages"])
	if len(messages) != 120 || messages[119]["index"] != 119.0 || !strings.HasPrefix(messages[119]["content"].(string), "Reply 119") || len(objects(o["runs"])) != 60 {
		t.Errorf("%d messages, %d runs", len(messages), len(objects(o["runs"])))
	}
	if err := export.Session(t.Context(), eng, &rewinds{eng: eng, checkpoint: cp.ID}, "s", nil); cairn.AsError(err).Code != cairn.ErrStale {
		t.Errorf("of a session that was rewound: %v", err)
	}
	if err := export.Session(t.Context(), eng, io.Discard, "none", nil); cairn.AsError(err).Code != cairn.ErrNotFound {
		t.Errorf("of an unknown session: %v", err)
	}
	if err := export.Sessions(t.Context(), eng, io.Discard, store.SessionQuery{Removed: []store.Removal{store.Deleted}}, nil); cairn.AsError(err).Code != cairn.ErrInvalid {
		t.Errorf("of removed sessions: %v", err)
	}
}

// Files beyond the limit are named only.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	eng := said(t, "42")
	for _, opts := range []*export.Options{{MaxFile: 3}, {MaxFile: -1}} {
		if got := line(t, eng, opts); strings.Contains(got, "dHJlZQ") || !strings.Contains(got, "[picture of 42, image/png, 4 bytes, is not part of this export]") {
			t.Errorf("with a limit of %d: %s", opts.MaxFile, got)
		}
	}
}
