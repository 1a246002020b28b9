//go:build !demo

package serve

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/internal/define"
)

// A server has what the file declares for it: headers of this process, the rule for turns without its tools, and how
// long they wait for them.
func TestDeclaredMCPServer(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	given := make(chan string, 100)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case given <- r.Header.Get("Authorization") + " " + r.Header.Get("X-Shop"):
		default:
		}
		<-closed
	}))
	defer web.Close()
	defer close(closed)
	s := &toolsets{env: map[string]string{"ADDRESS": web.URL, "TOKEN": "s3cr3t"}, logger: slog.New(slog.DiscardHandler)}
	defer s.close()
	for name, required := range map[string]bool{"required": true, "not required": false} {
		ts, err := s.of(&config.Tool{MCP: &config.MCP{URL: "${ADDRESS}", Headers: map[string]string{"authorization": "Bearer ${TOKEN}", "X-Shop": "seven"}, Required: required, ListTimeout: config.Duration(50 * time.Millisecond)}}, config.ToolCache{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := ts.(cairn.RequiredToolset); !ok || r.Required() != required {
			t.Errorf("%s: the server is not as declared", name)
		}
		if _, err := ts.Offer(t.Context(), define.NewStep(cairn.Step{}, nil), nil); err == nil || !strings.Contains(err.Error(), "within 50ms") {
			t.Errorf("%s: a turn waits otherwise: %v", name, err)
		}
		if got := <-given; got != "Bearer s3cr3t seven" {
			t.Errorf("%s: the server is sent %q", name, got)
		}
	}
}

// Every server that a file can declare has a name.
func TestMCPServersHaveNames(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]config.MCP{
		"shop-mcp":             {Command: []string{"./bin/shop-mcp"}},
		"shop":                 {Command: []string{"shop.sh", "-v"}},
		".shop":                {Command: []string{"/opt/.shop"}},
		"127.0.0.1:9000":       {URL: "http://127.0.0.1:9000/mcp"},
		"tools.example.com":    {URL: "https://tools.example.com"},
		"${SHOP_URL}":          {URL: "${SHOP_URL}"},
		"${SHOP_HOST}":         {URL: "https://${SHOP_HOST}/mcp"},
		"localhost:1":          {URL: "${SHOP_URL:-http://localhost:1/mcp}"},
		"${file:/run/address}": {URL: "${file:/run/address}"},
	} {
		if got := serverName(&m); got != want {
			t.Errorf("the name of %+v is %q, want %q", m, got, want)
		}
	}
}
