package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/server/aisdk"
)

// A body is bounded while it is read, before anything of it is decoded: JSON decodes into up to a hundred times its size.
// [Options] bounds its bytes and values, [cairn.MaxJSONDepth] its depth. Of the messages that a chat client posts only
// the last one is kept: no other can take memory or fail the request.
const (
	maxMessages = 10_000 // in a chat client's post
	maxParts    = 5_000  // of the last message, and of the parts within it

	largeBody   = 64 << 10 // size from which a body takes a place
	largeBodies = 2        // places: large bodies that are decoded and stored at a time
)

// takePlace waits until few enough large bodies are decoded and stored, which takes many times their memory.
func (c *request) takePlace(size int) error {
	if size < largeBody || c.large {
		return nil
	}
	select {
	case c.h.large <- struct{}{}:
		c.large = true
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// leavePlace lets another large body proceed. It is called once a turn has begun, at the latest at the request's end.
func (c *request) leavePlace() {
	if c.large {
		c.large = false
		<-c.h.large
	}
}

// readBody reads the body of a request.
func (c *request) readBody() ([]byte, error) {
	s := skim{list: c.lastOf, bytes: int(c.h.opts.MaxBody), values: c.h.opts.MaxValues, hint: int(c.r.ContentLength)}
	limit := c.h.opts.MaxBody
	if c.lastOf != "" {
		limit = max(limit, c.h.opts.MaxChatBody)
	}
	body := http.MaxBytesReader(c.w, c.r.Body, limit)
	err := s.read(body)
	refused := (*cairn.Error)(nil)
	if errors.As(err, &refused) { // the client reads the response when it has sent its request
		_, err = io.Copy(io.Discard, body)
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, tooMuch("body", "body is too large (max %d bytes)", tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &httpError{http.StatusRequestTimeout, string(cairn.ErrTimeout), "body was not received within " + c.h.opts.ReadTimeout.String()}
	case err != nil:
		return nil, cairn.Invalid("body", "%v", err)
	case refused != nil:
		return nil, refused
	}
	if s.turn != "" { // a body that is read again has only the last message
		c.seen = s.turn
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // the response may be a stream
	return s.kept, nil
}

func tooMuch(field, format string, args ...any) error {
	return &cairn.Error{Code: cairn.ErrTooLarge, Field: field, Message: fmt.Sprintf(format, args...)}
}

// skim reads JSON and keeps it within limits. It looks at names, brackets and commas only; [cairn.CheckJSON] checks that
// what is kept is valid.
type skim struct {
	list   string // the list, in the outermost object, of which only the last item is kept; empty for none
	bytes  int    // limit of what is kept
	values int    // limit of the values in it; negative for none
	hint   int    // expected size; negative if unknown

	kept  []byte
	open  []kind // the open objects and lists, outermost first, as far as they may nest
	depth int    // how many are open
	seen  tally

	name     []byte // of the member whose value comes next
	inName   bool   // the text under way is a name
	names    bool   // the next text is a name
	text     bool   // within a text
	escaped  bool   // behind a backslash in it
	scalar   bool   // within a number or a word
	inID     bool   // the text under way is the id of an item of list
	id       []byte // what came of it
	turn     string // the last id of an item that is a turn's
	items    int    // of list so far
	itemAt   int    // where in kept the item under way begins
	before   tally  // as of there
	overlong error  // why the item under way cannot be kept
}

// kind is a kind of thing that is open.
type kind byte

const (
	neither kind = iota // nothing is open, or too much
	anObject
	aList
	ofParts // a list of the parts of a message
	ofItems // the list of which the last item is kept
)

// tally counts what is kept.
type tally struct{ values, parts int }

// read reads all of in. An error of type *cairn.Error means that a limit is exceeded.
func (s *skim) read(in io.Reader) error {
	size := 32 << 10
	if s.hint >= 0 {
		size = min(size, max(s.hint, 512))
	}
	chunk := make([]byte, size)
	for {
		n, err := in.Read(chunk)
		if refused := s.feed(chunk[:n]); refused != nil {
			return refused
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *skim) feed(chunk []byte) error {
	for len(chunk) > 0 {
		n := 1
		if s.text {
			n = s.rest(chunk)
		} else if err := s.token(chunk[0]); err != nil {
			return err
		}
		if err := s.keep(chunk[:n]); err != nil {
			return err
		}
		chunk = chunk[n:]
	}
	return nil
}

// rest reads more of a text, up to its end, and returns how many bytes that are.
func (s *skim) rest(chunk []byte) int {
	n, quote := 0, -1 // quote is where the next one is
	for s.text && n < len(chunk) {
		if s.escaped {
			s.escaped = false
			n++
			continue
		}
		if quote < n {
			if quote = bytes.IndexByte(chunk[n:], '"'); quote < 0 {
				quote = len(chunk)
			} else {
				quote += n
			}
		}
		if plain := bytes.IndexByte(chunk[n:quote], '\\'); plain >= 0 {
			n, s.escaped = n+plain+1, true
		} else {
			n, s.text = min(quote+1, len(chunk)), quote == len(chunk)
		}
	}
	if s.inName {
		const most = 64 // of the names that matter, however they are escaped
		s.name = append(s.name, chunk[:min(n, most-len(s.name))]...)
	}
	if s.inID {
		const most = 256
		s.id = append(s.id, chunk[:min(n, most-len(s.id))]...)
		if s.inID = s.text; !s.inID && strings.HasPrefix(string(s.id), aisdk.TurnID("")) {
			s.turn = strings.TrimSuffix(string(s.id), `"`)
		}
	}
	return n
}

// token reads a byte outside of texts.
func (s *skim) token(c byte) error {
	within := s.scalar
	s.scalar = false
	switch c {
	case ' ', '\t', '\r', '\n':
	case ',':
		s.names = s.top() == anObject
	case ':':
		s.names = false
	case '}', ']':
		return s.close()
	case '"':
		s.text, s.inName = true, s.names
		if s.inName {
			s.name = s.name[:0]
			return nil
		}
		s.inID = s.depth == 3 && s.open[1] == ofItems && s.top() == anObject && s.named("id")
		s.id = s.id[:0]
		return s.value()
	case '{', '[':
		if err := s.value(); err != nil {
			return err
		}
		return s.enter(c == '{')
	default:
		s.scalar = true
		if !within {
			return s.value()
		}
	}
	return nil
}

// value counts a value that begins.
func (s *skim) value() error {
	top := s.top()
	if top == ofItems {
		if s.items == 0 {
			s.itemAt, s.before = len(s.kept), s.seen
		}
		s.kept, s.seen, s.overlong = s.kept[:s.itemAt], s.before, nil
		if s.items++; s.items > maxMessages {
			return tooMuch(s.list, "%s: too many items (max %d)", s.list, maxMessages)
		}
	}
	if s.overlong != nil {
		return nil
	}
	s.seen.values++
	if s.values >= 0 && s.seen.values > s.values {
		return s.refuse(tooMuch("body", "body has too many values (max %d)", s.values))
	}
	if top == ofParts {
		s.seen.parts++
	}
	if s.seen.parts > maxParts {
		return s.refuse(tooMuch(s.list, "%s: the last one has too many parts (max %d)", s.list, maxParts))
	}
	return nil
}

// enter opens an object or a list.
func (s *skim) enter(object bool) error {
	in := aList
	switch {
	case object:
		in = anObject
	case s.list == "" || s.top() != anObject:
	case s.depth == 1 && s.named(s.list):
		in, s.items = ofItems, 0
	case s.named("parts"):
		in = ofParts
	}
	s.names = object
	switch s.depth++; {
	case s.depth <= cairn.MaxJSONDepth:
		s.open = append(s.open, in)
	case s.overlong == nil:
		return s.refuse(cairn.Invalid("body", "is nested more than %d levels deep", cairn.MaxJSONDepth))
	}
	return nil
}

// close closes an object or a list.
func (s *skim) close() error {
	if s.depth == 0 {
		return nil
	}
	in := s.top()
	if s.depth--; s.depth < len(s.open) {
		s.open = s.open[:s.depth]
	}
	s.names = false
	if in == ofItems {
		return s.overlong
	}
	return nil
}

func (s *skim) top() kind {
	if s.depth == 0 || s.depth > len(s.open) {
		return neither
	}
	return s.open[s.depth-1]
}

// named reports whether the member whose value begins has a name. Names of requests are case-insensitive.
func (s *skim) named(want string) bool {
	name := strings.TrimSuffix(string(s.name), `"`)
	if strings.Contains(name, `\`) && json.Unmarshal([]byte(`"`+name+`"`), &name) != nil {
		return false
	}
	return strings.EqualFold(name, want)
}

// refuse returns an error, or keeps it for the end of an item that another one may replace.
func (s *skim) refuse(err error) error {
	for _, in := range s.open {
		if in == ofItems {
			if s.overlong == nil {
				s.overlong = err
			}
			return nil
		}
	}
	return err
}

// keep keeps a part of the body, unless it belongs to an item that cannot be kept.
func (s *skim) keep(part []byte) error {
	if s.overlong != nil {
		return nil
	}
	need := len(s.kept) + len(part)
	if need > s.bytes {
		return s.refuse(tooMuch(s.list, "%s: the last one makes the body too large (max %d bytes)", s.list, s.bytes))
	}
	if need > cap(s.kept) {
		const sure = 64 << 10 // the hint counts once so much has come
		size := max(need, 2*cap(s.kept), 512)
		if s.hint <= sure || need > sure {
			size = max(size, s.hint)
		}
		s.kept = append(make([]byte, 0, min(size, s.bytes)), s.kept...)
	}
	s.kept = append(s.kept, part...)
	return nil
}
