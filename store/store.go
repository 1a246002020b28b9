// Package store has the types for work with stored sessions: parameters and results of the engine's queries, and the
// errors of stores. It also copies sessions from one store to another.
//
// To open a store, use the package of its kind: sqlitestore, pgstore, redisstore or memstore. Pass the store to
// engine.New; the engine's methods read and write it. A store implements [driver.Store] of package driver. Programs
// that call the methods of that interface bypass the guarantees of the engine.
package store

import (
	"iter"

	"github.com/cairn-agents/cairn/store/driver"
)

type (
	// Store keeps sessions and everything that belongs to them. Applications open it, give it to an engine and close it.
	// To wrap one, see [driver.Store].
	Store = driver.Store
	// Log keeps the events of sessions. Most stores have one of their own.
	Log = driver.Log
	// Migration is one change of a store's schema, and whether the store has it.
	Migration = driver.Migration
)

// Queries of sessions and of their calls, checkpoints and runs, and their pages.
type (
	Page[T any]  = driver.Page[T]
	PageQuery    = driver.PageQuery
	SessionQuery = driver.SessionQuery
	CallQuery    = driver.CallQuery
	// QueuedTurn is a turn that waits for the one before it.
	QueuedTurn = driver.QueuedTurn
	// ContextChange changes a session's user id, title, tags, metadata or expiry, or archives it.
	ContextChange = driver.ContextChange
	// CacheEntry is the value that a session keeps for one key, such as the catalogue of an MCP server.
	CacheEntry = driver.CacheEntry
)

// All yields the items of a list, page after page. next reads the page at a cursor; the first page has an empty cursor.
// If a page cannot be read, the list ends with its error and a nil item. Each page is one read, so a list that changes
// in the meantime is not from a single point in time.
func All[T any](next func(cursor string) (Page[T], error)) iter.Seq2[*T, error] {
	return driver.All(next)
}

// Sessions that need a worker, and why.
type (
	Due     = driver.Due
	DueKind = driver.DueKind
)

const (
	DueCrashed  = driver.DueCrashed
	DueEnding   = driver.DueEnding
	DueReady    = driver.DueReady
	DueDeadline = driver.DueDeadline
	DueQueued   = driver.DueQueued
	DueOutbox   = driver.DueOutbox
)

// Removal is why a session no longer exists.
type Removal = driver.Removal

const (
	Deleted = driver.Deleted
	Expired = driver.Expired
)

type (
	// GoneError reports a session that was deleted or has expired. It matches cairn.ErrNotFound too.
	GoneError = driver.GoneError
	// TrimmedError reports events that a log has no more, and the first one that it has.
	TrimmedError = driver.TrimmedError
)

// Records are small values that belong to no session: see [driver.Records].
type (
	Records        = driver.Records
	RecordProvider = driver.RecordProvider
	Record         = driver.Record
	RecordQuery    = driver.RecordQuery
	RecordWrite    = driver.RecordWrite
)

const (
	// MaxRecordTTL is the longest time to live of a record.
	MaxRecordTTL = driver.MaxRecordTTL
	// UserRecords is the namespace of the records that belong to users, and are erased with them.
	UserRecords = driver.UserRecords
	// AnyVersion is the version of a write that replaces any existing record.
	AnyVersion = driver.AnyVersion
)

// Usage rows and their sums: see [driver.Usages].
type (
	Usages        = driver.Usages
	UsageProvider = driver.UsageProvider
)

// Memories of agents, by scope: see [driver.Memories]. Package memory gives them their meaning.
type (
	Memories       = driver.Memories
	MemoryProvider = driver.MemoryProvider
	MemoryScope    = driver.MemoryScope
)

const (
	MemoryOfSession = driver.MemoryOfSession
	MemoryOfUser    = driver.MemoryOfUser
	MemoryOfGroup   = driver.MemoryOfGroup
)

// Blobs are values that are found by their content: see [driver.Blobs]. Package workspace keeps files in them.
type (
	Blobs        = driver.Blobs
	BlobProvider = driver.BlobProvider
	BlobOwner    = driver.BlobOwner
)

// Interfaces of a store that [Copy] and [Export] need, and the parts of a session tree in transfer.
type (
	Importer = driver.Importer
	Part     = driver.Part
)
