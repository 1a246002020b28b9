package redisstore

import (
	"strconv"
	"sync"

	"github.com/cairn-agents/cairn/store/plan"
)

// command builds the command of a script. It is reused, because allocating and collecting texts would be most of a
// commit's cost in this process.
type command struct {
	list  []any
	texts []argument
	data  []byte // of all texts
}

// argument is a text that the client sends unchanged.
type argument []byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (t *argument) MarshalBinary() ([]byte, error) { return *t, nil }

var commands = sync.Pool{New: func() any { return &command{} }}

const (
	// mostReused and mostTexts bound what a command keeps for its next use.
	mostReused = 64 << 10
	mostTexts  = 1000
)

func newCommand() *command {
	c := commands.Get().(*command)
	c.list, c.texts, c.data = c.list[:0], c.texts[:0], c.data[:0]
	return c
}

// free makes the command available for reuse. Its texts must no longer be in use.
func (c *command) free() {
	if cap(c.data) <= mostReused && cap(c.texts) <= mostTexts {
		clear(c.list[:cap(c.list)])
		commands.Put(c)
	}
}

// add adds the text that was appended to data.
func (c *command) add(data []byte) {
	c.texts, c.data = append(c.texts, data[len(c.data):]), data
}

// text and number add an argument.
func (c *command) text(s string) { c.add(append(c.data, s...)) }

func (c *command) number(n int64) { c.add(strconv.AppendInt(c.data, n, 10)) }

// two adds one argument made of two texts, most often a kind of key or field and a name.
func (c *command) two(s, name string) { c.add(append(append(c.data, s...), name...)) }

// words adds arguments that are texts.
func (c *command) words(list ...string) {
	for _, s := range list {
		c.text(s)
	}
}

// time adds a time, which is two arguments.
func (c *command) time(t plan.Time) {
	c.number(micros(t.At))
	if t.Open {
		c.number(t.In.Microseconds())
	} else {
		c.text("")
	}
}

// finish returns the command that runs a script with some keys, in one or two lists. A nil key is filled in later.
func (c *command) finish(sc *script, keys, more []any) []any {
	c.list = append(append(append(c.list, "evalsha", sc.hash, len(keys)+len(more)), keys...), more...)
	for i := range c.texts {
		c.list = append(c.list, &c.texts[i])
	}
	return c.list
}
