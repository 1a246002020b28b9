package server

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A session's user exports what a chat shows of it; operators and administrators may export the rest.
func TestExport(t *testing.T) {
	fail := cairn.Func("fail", "Fails.", func(context.Context, *cairn.Call, struct{}) (string, error) {
		return "", errors.New("the password is x")
	})
	agent := &cairn.Agent{Name: "bot", Instructions: "You are brief.", Tools: []cairn.Tool{fail},
		Model: scripted.New(scripted.Call("fail", struct{}{}), scripted.Text("<b>Done.</b>"), scripted.Text(strings.Repeat("long ", 20_000)))}
	w := newWorldOf(t, nil, agent)
	if _, err := w.eng.Execute(t.Context(), "s", "bot", cairn.Text("Go."), engine.WithUser("alice")); err != nil {
		t.Fatal(err)
	}
	w.settled("s")
	res, data := w.do("a", "GET", "/sessions/s/export", nil)
	for name, want := range map[string]string{"Content-Type": "application/jsonl; charset=utf-8", "Content-Disposition": "attachment; filename=session.jsonl", "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	var line map[string]any
	if err := json.Unmarshal(data, &line); err != nil || len(line["messages"].([]any)) != 4 || strings.Contains(string(data), "password") || strings.Contains(string(data), "brief") {
		t.Errorf("the user's export is %s, %v", data, err)
	}
	res, data = w.do("a", "GET", "/sessions/s/export?format=html", nil)
	if res.Header.Get("Content-Type") != "text/html; charset=utf-8" || res.Header.Get("Content-Disposition") != "attachment; filename=session.html" || !strings.Contains(string(data), "&lt;b&gt;Done.") || !strings.HasSuffix(string(data), "</html>\n") {
		t.Errorf("the page: %v: %s", res.Header, data)
	}
	for _, token := range []string{"o", "x"} {
		if _, data = w.do(token, "GET", "/sessions/s/export?whole=true", nil); !strings.Contains(string(data), "password") || !strings.Contains(string(data), `"content":"You are brief."`) || !strings.Contains(string(data), `"description":"Fails."`) {
			t.Errorf("the whole export of %s: %s", token, data)
		}
	}
	for query, field := range map[string]string{"whole=true": "whole", "format=pdf": "format"} {
		if res, data := w.do("a", "GET", "/sessions/s/export?"+query, nil); res.StatusCode != 400 || !strings.Contains(string(data), `"field":"`+field+`"`) || res.Header.Get("Content-Disposition") != "" {
			t.Errorf("%s: status %d: %s", query, res.StatusCode, data)
		}
	}
	cl, err := client.New(w.url, &client.Options{Token: "a"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := cl.Export(t.Context(), "s", "html", false)
	if err != nil || f.Name != "session.html" || !strings.HasPrefix(string(f.Data), "<!DOCTYPE html>") {
		t.Errorf("the client's export is %+v, %v", f, err)
	}
}
