// Package export writes sessions for people and for programs that evaluate agents: as JSON lines, one session per line
// with its messages in the shape of chat completions, and as an HTML page that can be read without a server.
//
// An export has messages, calls, costs and scores. It is not a backup: package store has [store.Export], which can be
// imported again. The docs describe the lines field by field: docs/EXPORTS.md.
//
// Messages are read and written in small parts, so the length of a session does not matter. Texts may be redacted on the
// way, see [Options].
package export

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// Options tune an export. nil and the zero value mean the defaults.
type Options struct {
	// Public leaves out hidden messages, the instructions and tools of the model, and the texts of private errors, which the
	// users of a session may not see: [cairn.Message.Public]. By default an export has them.
	Public bool
	// Redact replaces texts: of messages and reasoning, of the arguments and results of calls (each text and number in the
	// JSON, and each name of a member), of errors, scores, titles, tags and metadata, of instructions and the
	// descriptions of tools, and the ids of sessions, threads and users. It returns the text to export; an error ends the
	// export. It may be called concurrently by exports that share it. With a Redact, files are left out, since their bytes
	// are not redacted. nil exports everything as it is.
	Redact func(text string) (string, error)
	// MaxFile is the maximum size of a file that is included, in bytes; 0 means 1 MiB, and a negative value includes none.
	// An export of one session has at most 32 MiB of files. Of other files there are the name, type and size.
	MaxFile int
	// Name, if set, is applied before Redact to the ids of sessions, threads and users and to the errors of runs, to replace
	// ids by the names that readers know.
	Name func(text string) string
}

// The limits of included files: the default of Options.MaxFile, and the sum for a session.
const (
	defaultFile = 1 << 20
	maxFiles    = 32 << 20
)

// pageSize is how many messages and rows are read at once.
const pageSize = 50

// exporter writes one export.
type exporter struct {
	ctx  context.Context // of one call
	eng  *engine.Engine
	opts Options
	// files is how many bytes of files may still be included.
	files int
}

func newExporter(ctx context.Context, eng *engine.Engine, opts *Options) *exporter {
	x := &exporter{ctx: ctx, eng: eng, files: maxFiles}
	if opts != nil {
		x.opts = *opts
	}
	if x.opts.MaxFile == 0 {
		x.opts.MaxFile = defaultFile
	}
	return x
}

// each calls do with each message of a session, as of its row. The error is ErrStale if the session was rewound meanwhile.
func (x *exporter) each(row *cairn.Session, do func(index int, m *cairn.Message) error) error {
	for from := 0; from < row.MessageCount; {
		list, err := x.eng.Messages(x.ctx, row.ID, from, min(pageSize, row.MessageCount-from))
		if err != nil {
			return err
		}
		for i := range list {
			if err := do(from+i, &list[i]); err != nil {
				return err
			}
		}
		if from += len(list); len(list) == 0 {
			break
		}
	}
	now, err := x.eng.Session(x.ctx, row.ID)
	if err == nil && (now.Epoch != row.Epoch || now.Incarnation != row.Incarnation) {
		err = cairn.Errorf(cairn.ErrStale, "session %q was rewound while it was exported", row.ID)
	}
	return err
}

// prompt is what the model of a session was given besides messages.
type prompt struct {
	instructions string
	tools        []cairn.ToolSpec
}

// prompt returns the instructions and tools of the latest reply of a session, as far as they are kept. Public exports have
// none.
func (x *exporter) prompt(row *cairn.Session) (p prompt, err error) {
	if x.opts.Public {
		return p, nil
	}
	blocks := map[string]json.RawMessage{}
	var instructions, tools string
	err = x.each(row, func(_ int, m *cairn.Message) error {
		f := m.Fingerprint
		if f == nil {
			return nil
		}
		maps.Copy(blocks, f.Blocks)
		instructions, tools = cmp.Or(f.Instructions, instructions), cmp.Or(f.Tools, tools)
		return nil
	})
	if err != nil {
		return p, err
	}
	var hashes []string
	decode := func(raw json.RawMessage, v any) {
		if raw != nil {
			err = errors.Join(err, json.Unmarshal(raw, v))
		}
	}
	decode(blocks[instructions], &p.instructions)
	decode(blocks[tools], &hashes)
	for _, hash := range hashes {
		if blocks[hash] == nil {
			continue
		}
		var t cairn.ToolSpec
		decode(blocks[hash], &t)
		p.tools = append(p.tools, t)
	}
	if err != nil {
		return p, cairn.Errorf(cairn.ErrCorrupt, "the fingerprints of session %q: %w", row.ID, err)
	}
	return p, nil
}

// children returns the sessions below a session, oldest first.
func (x *exporter) children(row *cairn.Session) (list []cairn.Session, err error) {
	for q := (store.SessionQuery{ParentID: row.ID, Limit: pageSize}); ; {
		page, err := x.eng.Sessions(x.ctx, q)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Items...)
		if q.Cursor = page.Next; q.Cursor == "" {
			slices.Reverse(list)
			return list, nil
		}
	}
}
