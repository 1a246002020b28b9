package redisstore

import (
	"fmt"

	"github.com/cairn-agents/cairn"
)

// reply is the answer of a script: a word for the outcome, and its details.
type reply []any

func (r reply) word() string { return r.text(0) }

// text returns an element that is a text; a missing one is empty.
func (r reply) text(i int) string {
	if i >= len(r) {
		return ""
	}
	return plain(r[i])
}

// plain returns a text or a number as a text; nil is empty.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// list returns an element that is a list; a missing one is empty.
func (r reply) list(i int) []any {
	if i >= len(r) {
		return nil
	}
	list, _ := r[i].([]any)
	return list
}

// unknown returns the error for an answer that the script never gives.
func unknown(sc *script, r reply) error { return unknownText(sc, r.word()) }

func unknownText(sc *script, text string) error {
	return cairn.Errorf(cairn.ErrInternal, "%s: unexpected response %q from the server", sc.doing, text)
}
