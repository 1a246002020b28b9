package driver

import (
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
)

// Unwrapper is a decorator: a Store that passes calls on to another one. A decorator that embeds the interface Store
// has that interface's methods only, so it must be an Unwrapper for the optional interfaces of the inner store to be
// found, see [As]. Their calls then go to the inner store and not through the decorator's methods: Import, Remove,
// Restore, Purge, WatchStops, CountTree, and everything of EventLog, Records, Memories, Blobs and Usages. A decorator that
// must see them implements those interfaces itself.
type Unwrapper interface {
	Store
	// Unwrap returns the inner store. It must not return the decorator.
	Unwrap() Store
}

// As returns st as a T, an optional interface such as [Sweeper], or the outermost of the stores that it decorates that
// is one: see [Unwrapper]. Use it instead of a type assertion. ok is false if none is, or st is nil.
func As[T any](st Store) (t T, ok bool) {
	for st != nil {
		if t, ok = st.(T); ok {
			return t, true
		}
		u, decorates := st.(Unwrapper)
		if !decorates {
			break
		}
		st = u.Unwrap()
	}
	return t, false
}

// LogUnwrapper is [Unwrapper] for logs. The appends of a [Fencer] go to the inner log and not through the decorator's
// Append.
type LogUnwrapper interface {
	Log
	// Unwrap returns the inner log. It must not return the decorator.
	Unwrap() Log
}

// LogAs is [As] for logs: it finds a [Fencer] or a [LogSweeper].
func LogAs[T any](log Log) (t T, ok bool) {
	for log != nil {
		if t, ok = log.(T); ok {
			return t, true
		}
		u, decorates := log.(LogUnwrapper)
		if !decorates {
			break
		}
		log = u.Unwrap()
	}
	return t, false
}

// OwnLog reports whether log is the event log of st, to which commits append their events. A decorator of the log does not
// see those.
func OwnLog(st Store, log Log) bool {
	p, ok := As[LogProvider](st)
	return ok && p.EventLog().Self() == log.Self()
}

func is[T any](st Store) bool {
	_, ok := As[T](st)
	return ok
}

func logIs[T any](log Log) bool {
	_, ok := LogAs[T](log)
	return ok
}

// CheckDecorator returns an error if st hides optional interfaces of the store that it decorates: it inherited Self
// from that store, and [As] does not find them. The error is ErrInvalid and names them.
func CheckDecorator(st Store) error {
	inner := st.Self()
	var hidden []string
	for _, x := range []struct {
		name string
		is   func(Store) bool
	}{
		{"BlobProvider", is[BlobProvider]}, {"Execer", is[Execer]}, {"Importer", is[Importer]}, {"LogProvider", is[LogProvider]},
		{"MemoryProvider", is[MemoryProvider]}, {"RecordProvider", is[RecordProvider]},
		{"Scrubber", is[Scrubber]},
		{"StopWatcher", is[StopWatcher]}, {"Sweeper", is[Sweeper]}, {"TreeCounter", is[TreeCounter]},
		{"UsageProvider", is[UsageProvider]},
	} {
		if x.is(inner) && !x.is(st) {
			hidden = append(hidden, x.name)
		}
	}
	return hides("store", "Store", st, inner, hidden)
}

// CheckLogDecorator is [CheckDecorator] for logs.
func CheckLogDecorator(log Log) error {
	inner := log.Self()
	var hidden []string
	if logIs[Fencer](inner) && !logIs[Fencer](log) {
		hidden = append(hidden, "Fencer")
	}
	if logIs[LogSweeper](inner) && !logIs[LogSweeper](log) {
		hidden = append(hidden, "LogSweeper")
	}
	if logIs[Scrubber](inner) && !logIs[Scrubber](log) {
		hidden = append(hidden, "Scrubber")
	}
	return hides("log", "Log", log, inner, hidden)
}

func hides(field, kind string, outer, inner any, hidden []string) error {
	if len(hidden) == 0 {
		return nil
	}
	return cairn.Invalid(field, "%s", fmt.Sprintf("%T decorates %T and hides its %s: add a method Unwrap() store.%s, or a method Self that returns it if intended",
		outer, inner, strings.Join(hidden, ", "), kind))
}
