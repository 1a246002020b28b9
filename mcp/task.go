package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Servers of revision 2025-11-25 can respond to a call with {"task": {…}}, which stands for work that is under way.
// It has no type of result, and the SDK would decode it as a complete, empty result. Responses are therefore
// inspected before the SDK decodes them, and such a result gets the type that tasks have in later revisions, which
// fails the call.

// markTask returns a result with the type "task" if it is a task of revision 2025-11-25, else the result unchanged.
func markTask(result json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(result, &members) != nil || !bytes.HasPrefix(bytes.TrimSpace(members["task"]), []byte("{")) {
		return result
	}
	if _, has := members["content"]; has { // a result, whatever else it contains
		return result
	}
	members["resultType"] = json.RawMessage(`"task"`)
	marked, err := json.Marshal(members)
	if err != nil {
		return result
	}
	return marked
}

// markMessage marks the task in the result of a message, if there is one.
func markMessage(message []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(message, &members) != nil || members["result"] == nil {
		return message
	}
	marked := markTask(members["result"])
	if bytes.Equal(marked, members["result"]) {
		return message
	}
	members["result"] = marked
	raw, err := json.Marshal(members)
	if err != nil {
		return message
	}
	return raw
}

// marking marks the tasks in the responses of a command.
type marking struct{ sdk.Transport }

func (t marking) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return markingConn{conn}, nil
}

type markingConn struct{ sdk.Connection }

func (c markingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok && r != nil && r.Error == nil {
		r.Result = markTask(r.Result)
	}
	return m, err
}

// markAnswer marks the tasks in an HTTP response while it is read.
func markAnswer(resp *http.Response) {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch strings.TrimSpace(media) {
	case "application/json":
		resp.Body = &markedBody{ReadCloser: resp.Body, next: wholeBody(resp.Body)}
	case "text/event-stream":
		resp.Body = &markedBody{ReadCloser: resp.Body, next: events(resp.Body)}
	default:
		return
	}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
}

// markedBody is a body that is read, and marked, piece by piece.
type markedBody struct {
	io.ReadCloser
	next func() ([]byte, error) // may return a piece together with the error that ends the body
	rest []byte
	err  error
}

func (b *markedBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.err == nil {
		b.rest, b.err = b.next()
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) > 0 || n > 0 {
		return n, nil
	}
	return 0, b.err
}

// wholeBody reads a body that is one message.
func wholeBody(body io.Reader) func() ([]byte, error) {
	return func() ([]byte, error) {
		raw, err := io.ReadAll(body)
		if err != nil {
			return raw, err
		}
		return markMessage(raw), io.EOF
	}
}

// events reads a body that is a stream of events, each with a message.
func events(body io.Reader) func() ([]byte, error) {
	lines := bufio.NewReader(body)
	return func() ([]byte, error) {
		var event []byte
		for begins := true; ; {
			line, err := lines.ReadSlice('\n')
			if event = append(event, line...); len(event) > maxMessage {
				return nil, errLarge
			}
			if err == bufio.ErrBufferFull {
				begins = false
				continue
			}
			if err != nil || begins && len(bytes.TrimRight(line, "\r\n")) == 0 {
				return markEvent(event), err
			}
			begins = true
		}
	}
}

// markEvent marks the task that is the data of an event.
func markEvent(event []byte) []byte {
	var data, others []byte
	for line := range bytes.Lines(event) {
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, value...)
		} else {
			others = append(others, line...)
		}
	}
	marked := markMessage(data)
	if bytes.Equal(marked, data) {
		return event
	}
	return append(append([]byte("data: "), append(marked, '\n')...), others...)
}
