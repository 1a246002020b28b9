package providertest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// toolFields tests that a tool is sent with the fields for this provider, and without those for others.
func (a Adapter[Q, R]) toolFields(t *testing.T) {
	var body string
	m := a.through(func(r *http.Request) (*http.Response, error) {
		raw, err := io.ReadAll(r.Body)
		body = string(raw)
		if err != nil {
			return nil, err
		}
		return Plays(a.Piece + a.Last + a.Done)(r)
	})
	req := Hello()
	req.Tools = []cairn.ToolSpec{{Name: "lookup", Schema: json.RawMessage(`{"type":"object"}`), Fields: map[string]json.RawMessage{
		a.Name: json.RawMessage(`{"description":"Looks <up>.","own":{"x":1}}`), "another": json.RawMessage(`{"foreign":1}`)}}}
	if _, err := Ask(t.Context(), m, req); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`"own":{"x":1}`: true, `"description":"Looks <up>."`: true, `"lookup"`: true, "foreign": false, "another": false} {
		if strings.Contains(body, text) != want {
			t.Errorf("the request has %s: %t\n%s", text, !want, body)
		}
	}
}
