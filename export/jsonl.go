package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// Sessions writes the roots that a query selects as JSON lines, newest first: one session per line, with the sessions below
// it in it. q's RootsOnly and Limit are ignored. A session that is deleted meanwhile is left out. A line is written while
// its session is read, so after an error the last line may be incomplete.
//
// The error is ErrInvalid for a query of removed sessions, and ErrStale if a session was rewound while it was read. Errors
// of reads, of w and of opts.Redact end the export.
func Sessions(ctx context.Context, eng *engine.Engine, w io.Writer, q store.SessionQuery, opts *Options) error {
	if len(q.Removed) > 0 {
		return cairn.Invalid("removed", "removed sessions cannot be exported")
	}
	q.RootsOnly, q.Limit = q.ParentID == "", pageSize
	for {
		page, err := eng.Sessions(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			row, err := eng.Session(ctx, page.Items[i].ID)
			if errors.Is(err, cairn.ErrNotFound) || errors.Is(err, cairn.ErrDeleted) || errors.Is(err, cairn.ErrExpired) {
				continue
			}
			if err == nil {
				err = write(newExporter(ctx, eng, opts), w, row)
			}
			if err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// Session writes one session as a line of JSON, with the sessions below it. It returns the errors of
// [Sessions], and ErrNotFound for an unknown session, with nothing written.
func Session(ctx context.Context, eng *engine.Engine, w io.Writer, id string, opts *Options) error {
	row, err := eng.Session(ctx, id)
	if err != nil {
		return err
	}
	return write(newExporter(ctx, eng, opts), w, row)
}

// write writes a session as a line.
func write(x *exporter, w io.Writer, row *cairn.Session) error {
	l := &line{exporter: x, w: bufio.NewWriterSize(w, 32<<10)}
	if err := l.session(row); err != nil {
		return err
	}
	if err := l.w.WriteByte('\n'); err != nil {
		return err
	}
	return l.w.Flush()
}

// line writes a line.
type line struct {
	*exporter
	w *bufio.Writer
}

// session writes a session as an object.
func (l *line) session(row *cairn.Session) error {
	s, instructions, err := l.head(row)
	if err != nil {
		return err
	}
	head, err := encode(s)
	if err != nil {
		return err
	}
	if _, err := l.w.Write(bytes.TrimSuffix(head, []byte("}"))); err != nil {
		return err
	}
	err = l.list("messages", func(item func(any) error) error {
		if instructions != "" {
			if err := item(&instruction{"system", instructions}); err != nil {
				return err
			}
		}
		return l.each(row, func(index int, m *cairn.Message) error {
			list, err := l.exported(index, m)
			for i := range list {
				err = errors.Join(err, item(&list[i]))
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := l.list("runs", func(item func(any) error) error { return l.runs(row, func(r run) error { return item(&r) }) }); err != nil {
		return err
	}
	scores, err := l.scores(row)
	if err != nil {
		return err
	}
	err = l.list("scores", func(item func(any) error) error {
		for i := range scores {
			if err := item(&scores[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	children, err := l.children(row)
	if err != nil {
		return err
	}
	err = l.list("children", func(item func(any) error) error {
		for i := range children {
			if err := item(&children[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.w.WriteByte('}')
}

// instruction is the first message of a session: the instructions of the latest reply.
type instruction struct {
	Role    string `json:"role"` // "system"
	Content string `json:"content"`
}

// list writes a member of an object that is a list, whose items write passes to item one by one. An item that is a
// session's row is written as an object of its own.
func (l *line) list(name string, write func(item func(any) error) error) error {
	if _, err := l.w.WriteString(`,"` + name + `":[`); err != nil {
		return err
	}
	first := true
	err := write(func(v any) error {
		if !first {
			if err := l.w.WriteByte(','); err != nil {
				return err
			}
		}
		first = false
		if row, ok := v.(*cairn.Session); ok {
			return l.session(row)
		}
		raw, err := encode(v)
		if err == nil {
			_, err = l.w.Write(raw)
		}
		return err
	})
	if err != nil {
		return err
	}
	return l.w.WriteByte(']')
}

// encode returns the JSON of a value, with < and > as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
