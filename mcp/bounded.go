package mcp

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
)

// maxMessage is the maximum size of a server's message in bytes. A larger one ends the connection.
const maxMessage = 16 << 20

// bounded adds the header of a server's requests, bounds responses that are not streams, and marks tasks.
type bounded struct {
	http.RoundTripper
	header http.Header
}

func (t *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(t.header) > 0 {
		req = req.Clone(req.Context())
		for name, values := range t.header {
			req.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &boundedBody{resp.Body, maxMessage}
	}
	markAnswer(resp)
	return resp, nil
}

var errLarge = errors.New("the server's response is too large (max 16 MiB)")

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errLarge
	}
	return n, err
}
