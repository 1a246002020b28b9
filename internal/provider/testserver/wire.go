package testserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Wire says how a reply is sent, and which faults occur. The zero value is a stream, sent event by event.
type Wire struct {
	// Status makes the response an error, with Code and Message in the provider's form.
	Status  int
	Code    string
	Message string
	// Header is added to the response.
	Header http.Header

	// Raw is sent unchanged instead of everything else: as the event stream, or as the body of an error.
	Raw string
	// Piece is how many bytes are sent at a time. Default: whole events; a Raw stream whole.
	Piece int
	// BreakAfter drops the connection after that many events. Default: the stream is complete.
	BreakAfter int
	// ErrorAfter sends an error event with Code and Message after that many events, and ends the stream.
	ErrorAfter int
	// Gate holds the stream after its first piece until the channel is closed, or the server or client is gone.
	Gate <-chan struct{}
}

// After returns the header with a Retry-After.
func (w *Wire) After(value string) http.Header {
	h := w.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Retry-After", value)
	return h
}

// Cut returns the events up to the error that the wire has, if any. failed returns the event of that error.
func (w *Wire) Cut(events []string, failed func() string) []string {
	if w.ErrorAfter > 0 {
		return append(events[:min(w.ErrorAfter, len(events)):min(w.ErrorAfter, len(events))], failed())
	}
	return events
}

func (w *Wire) stream(rw http.ResponseWriter, r *http.Request, pieces []string, closed <-chan struct{}) {
	for name, values := range w.Header {
		rw.Header()[name] = values
	}
	rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if w.Raw != "" {
		pieces = []string{w.Raw}
	}
	if w.BreakAfter > 0 {
		pieces = pieces[:min(w.BreakAfter, len(pieces))]
	}
	if w.Piece > 0 {
		pieces = cut(strings.Join(pieces, ""), w.Piece)
	}
	for i, piece := range pieces {
		if i == 1 && w.Gate != nil {
			select {
			case <-w.Gate:
			case <-r.Context().Done():
				return
			case <-closed:
				return
			}
		}
		if _, err := rw.Write([]byte(piece)); err != nil {
			return
		}
		_ = http.NewResponseController(rw).Flush() // fails only if the client is gone
	}
	if w.BreakAfter > 0 {
		panic(http.ErrAbortHandler) // drops the connection without the end of the body
	}
}

func cut(text string, size int) []string {
	var list []string
	for len(text) > size {
		list, text = append(list, text[:size]), text[size:]
	}
	return append(list, text)
}

// Encode returns the JSON of a value, and panics if it has none.
func Encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("testserver: " + err.Error())
	}
	return string(data)
}

// Arguments returns the arguments of a scripted call. A string is used as their text; anything else is marshalled,
// and Arguments panics if that fails.
func Arguments(tool string, args any) string {
	if text, ok := args.(string); ok {
		return text
	}
	data, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("arguments of tool %q: %v", tool, err))
	}
	return string(data)
}

// Words cuts text after each space.
func Words(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.SplitAfter(text, " ")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}
