package mcp

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn/store/memstore"
)

// guarded is a server that accepts requests with some tokens.
type guarded struct {
	mu   sync.Mutex
	good string // token that is accepted
	seen []string
}

func (s *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, bearer(r)+" "+string(raw))
	status := http.StatusUnauthorized
	if bearer(r) == s.good {
		status = http.StatusOK
	}
	return answer(status, ""), nil
}

// request makes a request with the present token as the SDK does, which repeats it once if Authorize permits that.
func request(t *testing.T, o *connection, s http.RoundTripper, token string) (status int, err error) {
	t.Helper()
	h := &userHandler{o: o, user: "ada"}
	client := http.Client{Transport: &renewing{s, h}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.address, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		return resp.StatusCode, h.Authorize(t.Context(), req, resp)
	}
	return resp.StatusCode, nil
}

func TestRejectedTokenIsRefreshedOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		good string
		want string
	}{
		"accepted":         {"access-1", "access-0 body,access-1 body"},
		"rejected as well": {"", "access-0 body,access-1 body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as, s := &issuer{}, &guarded{good: test.good}
			o := process(t, memstore.New(nil), as, Client{})
			authorise(t, o, as, time.Hour)
			status, err := request(t, o, s, "access-0")
			if test.good != "" && (status != http.StatusOK || err != nil) || test.good == "" && !needsConnect(err) {
				t.Errorf("the request came to %d, %v", status, err)
			}
			if got := strings.Join(s.seen, ","); got != test.want || len(as.requests()) != 1 {
				t.Errorf("the server got %s, after %d refreshes", got, len(as.requests()))
			}
			if g, err := o.stored(t.Context(), "ada"); err != nil || (g == nil) != (test.good == "") {
				t.Errorf("the grant is %+v, %v", g, err)
			}
		})
	}
}

// Requests of several processes whose token the server rejects share one refresh.
func TestRejectedRequestsShareARefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, as, s := memstore.New(nil), &issuer{takes: time.Second}, &guarded{good: "access-1"}
		processes := []*connection{process(t, st, as, Client{}), process(t, st, as, Client{})}
		authorise(t, processes[0], as, time.Hour)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if status, err := request(t, processes[i%2], s, "access-0"); status != http.StatusOK || err != nil {
					t.Errorf("the request came to %d, %v", status, err)
				}
			})
		}
		all.Wait()
		if n := len(as.requests()); n != 1 {
			t.Errorf("the token was refreshed %d times", n)
		}
	})
}
