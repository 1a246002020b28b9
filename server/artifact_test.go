package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/model/scripted"
)

// Artifacts are listed for those who may read the session, read in ranges at signed addresses, and shown in chats: live, and
// in the history.
func TestArtifacts(t *testing.T) {
	page := []byte("<script>" + strings.Repeat("x", 5<<20) + "</script>")
	publish := cairn.Func("publish", "", func(ctx context.Context, call *cairn.Call, _ struct{}) (string, error) {
		if err := call.Publish(ctx, "a.csv", "text/csv", strings.NewReader("a,b")); err != nil {
			return "", err
		}
		return "done", call.Publish(ctx, "page.html", "text/html", bytes.NewReader(page))
	})
	w := newWorldOf(t, nil, &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Call("publish", struct{}{}), scripted.Text("Here.")), Tools: []cairn.Tool{publish}})
	_, live := w.do("a", "POST", "/chat", map[string]any{"id": "s", "messages": []any{map[string]any{"id": "m", "role": "user", "parts": []any{map[string]any{"type": "text", "text": "go"}}}}})
	w.settled("s")
	list := want[pageBody[client.SessionArtifact]](w, 200, "a", "GET", "/sessions/s/artifacts", nil).Items
	if len(list) != 2 || list[0].Name != "a.csv" || list[1].Size != int64(len(page)) || list[1].MediaType != "text/html" || len(list[1].Blobs) > 0 {
		t.Fatalf("artifacts %+v", list)
	}
	first := want[pageBody[client.SessionArtifact]](w, 200, "a", "GET", "/sessions/s/artifacts?limit=1", nil)
	second := want[pageBody[client.SessionArtifact]](w, 200, "a", "GET", "/sessions/s/artifacts?limit=1&cursor="+first.Next, nil)
	if len(first.Items) != 1 || len(second.Items) != 1 || second.Items[0].Name != "page.html" || second.HasMore {
		t.Errorf("pages %+v and %+v", first, second)
	}
	for _, cursor := range []string{"x", "2", "-1.0", "2.01", "2.0.0"} {
		if res, data := w.do("a", "GET", "/sessions/s/artifacts?cursor="+cursor, nil); res.StatusCode != 400 || !strings.Contains(string(data), `"field":"cursor"`) {
			t.Errorf("cursor %s: status %d: %s", cursor, res.StatusCode, data)
		}
	}
	addresses := []string{list[0].URL, list[1].URL}
	if got := w.addressed("a"); !slices.Equal(got, addresses) {
		t.Errorf("the history has the files %v, want %v", got, addresses)
	}
	for _, address := range addresses {
		if !strings.Contains(string(live), strings.ReplaceAll(address, "&", `\u0026`)) && !strings.Contains(string(live), address) {
			t.Errorf("the live stream lacks the file %s:\n%s", address, live)
		}
	}
	res, data := w.do("", "GET", list[1].URL, nil) // the address is enough
	if res.StatusCode != 200 || !bytes.Equal(data, page) || res.Header.Get("Content-Disposition") != "attachment; filename=page.html" {
		t.Errorf("status %d, %d bytes, %v", res.StatusCode, len(data), res.Header)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+list[1].URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=4194300-4194310")
	if res, err = http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	}
	data, err = io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusPartialContent || string(data) != "xxxxxxxxxxx" || res.Header.Get("Content-Range") != "bytes 4194300-4194310/5242897" {
		t.Errorf("a range: status %d, %q, %v", res.StatusCode, data, res.Header)
	}
	for _, path := range []string{strings.Replace(list[1].URL, "files/1", "files/2", 1), "/sessions/s/messages/2/files/1"} {
		if res, data := w.do("", "GET", path, nil); res.StatusCode != 404 && res.StatusCode != 401 {
			t.Errorf("%s: status %d: %s", path, res.StatusCode, data)
		}
	}
	if res, _ := w.do("e", "GET", "/sessions/s/artifacts", nil); res.StatusCode != 404 {
		t.Errorf("another user lists artifacts: status %d", res.StatusCode)
	}
	if err := w.eng.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if res, _ := w.do("", "GET", list[0].URL, nil); res.StatusCode != 404 {
		t.Errorf("of a deleted session: status %d", res.StatusCode)
	}
}
