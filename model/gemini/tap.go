package gemini

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/cairn-agents/cairn/internal/provider"
)

// The SDK decodes what it receives into types of its own, which lose large numbers and unknown fields, and it drops
// the headers of an error. A tap keeps both: it records the bytes of a response while the SDK reads them.

// tap records what was received for one call.
type tap struct {
	io.ReadCloser
	watch *provider.Idle
	res   *http.Response // without its body
	rest  []byte         // received and not yet taken by next
	err   error          // error that ended the connection; nil after an orderly end
}

type tapKey struct{}

// tapped attaches the tap in the context to the response of its request.
type tapped struct{ http.RoundTripper }

func (t tapped) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(req)
	if tap, ok := req.Context().Value(tapKey{}).(*tap); ok && res != nil && res.Body != nil {
		kept := *res
		tap.res, tap.ReadCloser = &kept, tap.watch.Body(res.Body)
		res.Body = tap
	}
	return res, err
}

func withTap(ctx context.Context, t *tap) context.Context { return context.WithValue(ctx, tapKey{}, t) }

// Read reports errors as an orderly end to the SDK, which would write them to the log of the process.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.rest = append(t.rest, p[:n]...)
	if err != nil && err != io.EOF {
		t.err, err = err, io.EOF
	}
	return n, err
}

// Close returns no error, for the same reason.
func (t *tap) Close() error {
	_ = t.ReadCloser.Close() // what was read is known
	return nil
}

// next returns the next event as the SDK delimits it: the text before an empty line, without its field name.
func (t *tap) next() []byte {
	for len(t.rest) > 0 {
		line := t.rest
		if i := bytes.Index(line, []byte("\n\n")); i >= 0 {
			line, t.rest = line[:i], line[i+2:]
		} else if i := bytes.Index(line, []byte("\r\n\r\n")); i >= 0 {
			line, t.rest = line[:i], line[i+4:]
		} else {
			t.rest = nil
		}
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			_, data, _ := bytes.Cut(line, []byte(":"))
			return data
		}
	}
	return nil
}
