package testserver

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Call is a tool call of a reply.
type Call struct {
	// ID is the call's id. It defaults to one derived from the number of the request and the call's position;
	// Gemini's calls have no default.
	ID        string
	Tool      string
	Arguments string
}

// Pieces returns the arguments in the pieces in which they are streamed.
func (c *Call) Pieces() []string {
	var list []string
	for piece := range slices.Chunk([]rune(c.Arguments), 7) {
		list = append(list, string(piece))
	}
	return list
}

// Identifier matches the names of tools and the ids of calls that providers accept.
var Identifier = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Sign returns a signature of some values that only this server can have given out. format has a verb for each
// value.
func Sign(format string, values ...any) string {
	mac := hmac.New(sha256.New, []byte("testserver"))
	fmt.Fprintf(mac, format, values...)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Decoded decodes values that Protocol.Read has checked.
func Decoded[T any](raws []json.RawMessage) []T {
	list := make([]T, len(raws))
	for i, raw := range raws {
		_ = json.Unmarshal(raw, &list[i]) // already checked
	}
	return list
}

// Event formats an event of a stream. Without a kind it has data only.
func Event(kind string, data any) string {
	line := "data: " + Encode(data) + "\n\n"
	if kind != "" {
		line = "event: " + kind + "\n" + line
	}
	return line
}

// Bearer returns the key of a request to one of OpenAI's APIs.
func Bearer(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") }

// NoBearer is the response of OpenAI's APIs to a wrong key.
var NoBearer = Wire{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "Incorrect API key provided."}

// OpenAIFailure returns the error of a wire in the form of OpenAI's APIs.
func OpenAIFailure(w *Wire) map[string]any {
	kind := "invalid_request_error"
	switch {
	case w.Code == "insufficient_quota":
		kind = w.Code
	case w.Status == http.StatusTooManyRequests:
		kind = "requests"
	case w.Status >= 500 || w.Status == 0:
		kind = "server_error"
	}
	var code any
	if w.Code != "" {
		code = w.Code
	}
	return map[string]any{"message": cmp.Or(w.Message, http.StatusText(w.Status)), "type": kind, "param": nil, "code": code}
}
