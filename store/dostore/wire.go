package dostore

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// protocol is the version of the protocol that this program speaks; docs/CLOUDFLARE.md describes it.
const protocol = 1

// request is a request to an object.
type request struct {
	ID int64  `json:"id"`
	Op string `json:"op"`

	// Of a read: its parts, and after how many characters of values the answer is cut.
	Ask  []ask `json:"ask,omitempty"`
	Most int   `json:"most,omitempty"`

	// Of a write: its time, the versions that rows must have, ranges of rows to delete, rows to write, values for the
	// directory and owners whose watchers are woken.
	At    int64       `json:"at,omitempty"`
	If    []condition `json:"if,omitempty"`
	Clear [][3]string `json:"clear,omitempty"`
	Put   [][3]string `json:"put,omitempty"`
	Share []shared    `json:"share,omitempty"`
	Wake  []string    `json:"wake,omitempty"`

	// Of a list of the directory.
	List   string `json:"list,omitempty"`
	From   string `json:"from"`
	To     string `json:"to"`
	Newest bool   `json:"newest,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// size is less than the size of the encoded request.
func (r *request) size() (n int) {
	for _, row := range r.Put {
		n += len(row[2])
	}
	for i := range r.Share {
		if v := r.Share[i].Value; v != nil {
			n += len(*v)
		}
	}
	return n
}

// ask is one part of a read.
type ask struct {
	How    string   `json:"how"`
	Of     []string `json:"of"`
	Newest bool     `json:"newest,omitempty"`
	Limit  int      `json:"limit,omitempty"`
	Until  string   `json:"until,omitempty"`
	// Sizes reads the numbers of characters of values instead of the values.
	Sizes bool `json:"sizes,omitempty"`
}

// get asks for a row.
func get(owner, key string) ask { return ask{How: "get", Of: []string{owner, key}} }

// via asks for the row whose key is the value of another row.
func via(owner, key string) ask { return ask{How: "via", Of: []string{owner, key}} }

// scan asks for the rows from a key up to, and without, another one.
func scan(owner, from, to string) ask { return ask{How: "scan", Of: []string{owner, from, to}} }

// condition is the version that a row must have; 0 for a row that must not exist.
type condition struct {
	owner, key string
	version    int64
}

func (c condition) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{c.owner, c.key, c.version})
}

// shared is a value for the directory: its source and its places in lists. A nil Value removes it.
type shared struct {
	Source string      `json:"source"`
	Value  *string     `json:"value"`
	Lists  [][2]string `json:"lists,omitempty"`
	// Append is a list that gets the value at its end.
	Append string `json:"append,omitempty"`
	// Wake names what the watchers of the directory are woken with.
	Wake string `json:"wake,omitempty"`
	// Version is that of the value, if it is changed in the directory itself.
	Version int64 `json:"version,omitempty"`
}

// answer is an object's answer to a request, or a notice.
type answer struct {
	ID       int64             `json:"id"`
	Hello    int               `json:"hello"`
	Now      int64             `json:"now"`
	Last     int64             `json:"last"`
	Rows     []json.RawMessage `json:"rows"`
	Cut      bool              `json:"cut"` // the last part may have more rows
	Version  int64             `json:"version"`
	Conflict *conflict         `json:"conflict"`
	Ahead    bool              `json:"ahead"`
	Woke     []string          `json:"woke"`
	Error    string            `json:"error"`

	lost error // the connection ended before the answer
}

// conflict is the row whose version was not the one that a write required.
type conflict struct {
	Owner string `json:"owner"`
	Key   string `json:"key"`
	Row   *row   `json:"row"`
}

// version returns the version of the row; 0 if there is none.
func (c *conflict) version() int64 {
	if c.Row == nil {
		return 0
	}
	return c.Row.version
}

// row is a stored row. Its version is that of the write that put it there. A row of a list of the directory has the
// source of its value.
type row struct {
	key, value string
	version    int64
	source     string
}

func (r *row) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&r.key, &r.value, &r.version, &r.source})
}

// one returns the row that the i-th part of a read asked for, or nil.
func (a *answer) one(i int) (*row, error) {
	var r *row
	return r, a.decode(i, &r)
}

// all returns the rows that the i-th part of a read asked for.
func (a *answer) all(i int) ([]row, error) {
	var list []row
	return list, a.decode(i, &list)
}

func (a *answer) decode(i int, into any) error {
	if i >= len(a.Rows) {
		return cairn.Errorf(cairn.ErrCorrupt, "the object answered %d parts of a read, but not part %d", len(a.Rows), i)
	}
	if err := json.Unmarshal(a.Rows[i], into); err != nil {
		return cairn.Errorf(cairn.ErrCorrupt, "decode the rows of an object: %w", err)
	}
	return nil
}
