// Package storetest is the suite that every store and event log passes. Run it from a test:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(tb testing.TB) driver.Store { return mystore.OpenTemp(tb) }, nil)
//	}
//
// Options declares capabilities beyond the contract; tests of undeclared capabilities do not run. Bench and BenchLog
// have benchmarks of the most frequent operations of a session, for comparison between stores.
package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn/store/driver"
)

// OpenStore opens a fresh, empty store that shares nothing with any other, and registers its cleanup with tb.
type OpenStore func(tb testing.TB) driver.Store

// OpenLog opens a fresh, empty event log that shares nothing with any other, and registers its cleanup with tb.
type OpenLog func(tb testing.TB) driver.Log

// Options declares a store's abilities beyond the contract. nil declares none.
type Options struct {
	// Reopen closes a store and opens it again on the same data. Declare it if the data outlives Close.
	Reopen func(tb testing.TB, st driver.Store) driver.Store
	// Second opens another handle on the data of a store, as another process would. The first one stays open.
	Second func(tb testing.TB, st driver.Store) driver.Store
	// Fault makes the n-th internal write from now on fail, n from 1, as a full disk or a lost connection would. The
	// function that it returns ends this and reports whether a write has failed.
	Fault func(tb testing.TB, st driver.Store, n int) (disarm func() (failed bool))
	// Seed is the seed of the random histories; 0 means a new one each time. A failure reports its seed.
	Seed uint64
	// Brief makes races and random histories a tenth as long, as -short does, and leaves out the largest page of
	// checkpoints. It is for another way to open a store that passes in full.
	Brief bool
	// Without names tests that do not run, as Chapter/Test. It is for a store that is too slow for the whole suite each
	// time; run the suite without it as well. A name that no test has fails the suite.
	Without []string
	// BlobsOfTrees declares that each tree has its own copies of its blobs, which are deleted with their names: a sweep finds
	// nothing to delete.
	BlobsOfTrees bool

	watchesStops bool // the store is a StopWatcher
	sweeps       bool // the store is a Sweeper
	bringsLog    bool // the store is a LogProvider
	imports      bool // the store is an Importer
	records      bool // the store is a RecordProvider
	memories     bool // the store is a MemoryProvider
	usages       bool // the store is a UsageProvider
	blobs        bool // the store is a BlobProvider
}

// LogOptions declares an event log's abilities beyond the contract. nil declares none.
type LogOptions struct {
	// Reopen closes a log and opens it again on the same data. Declare it if the data outlives the process.
	Reopen func(tb testing.TB, log driver.Log) driver.Log
	// Second opens another handle on the data of a log, as another process would. The first one stays open.
	Second func(tb testing.TB, log driver.Log) driver.Log
	// Brief makes races a tenth as long, as -short does. It is for another way to open a log that passes in full.
	Brief bool

	sweeps bool // the log is a LogSweeper
}

// Run runs the suite on the stores that open returns, one for each test, several at a time.
func Run(t *testing.T, open OpenStore, opts *Options) { run(t, open, opts, chapters) }

// RunRecords runs only the chapter on records, on stores that are RecordProviders.
func RunRecords(t *testing.T, open OpenStore, opts *Options) {
	if _, ok := open(t).(driver.RecordProvider); !ok {
		t.Fatal("the store keeps no records")
	}
	run(t, open, opts, []chapter{recordChapter})
}

// RunMemories runs only the chapter on memories, on stores that are MemoryProviders. The suite of package
// memory/memorytest runs searches on such a store.
func RunMemories(t *testing.T, open OpenStore, opts *Options) {
	if _, ok := open(t).(driver.MemoryProvider); !ok {
		t.Fatal("the store keeps no memories")
	}
	run(t, open, opts, []chapter{memoryChapter})
}

func run(t *testing.T, open OpenStore, opts *Options, chapters []chapter) {
	var declared Options
	if opts != nil {
		declared = *opts
	}
	st := open(t)
	_, declared.watchesStops = st.(driver.StopWatcher)
	_, declared.sweeps = st.(driver.Sweeper)
	_, declared.bringsLog = st.(driver.LogProvider)
	_, declared.imports = st.(driver.Importer)
	_, declared.records = st.(driver.RecordProvider)
	_, declared.memories = st.(driver.MemoryProvider)
	_, declared.usages = st.(driver.UsageProvider)
	_, declared.blobs = st.(driver.BlobProvider)
	declared.checkWithout(t, chapters)
	for _, c := range chapters {
		t.Run(c.name, func(t *testing.T) {
			for _, test := range c.tests {
				if slices.Contains(declared.Without, c.name+"/"+test.name) || test.needs != nil && !test.needs(&declared) || c.sweeps && !declared.sweeps || c.imports && !declared.imports || c.records && !declared.records ||
					c.memories && !declared.memories || c.usages && !declared.usages || c.blobs && !declared.blobs {
					continue
				}
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(&harness{T: t, st: open(t), open: open, opts: &declared, serial: new(atomic.Int64), logs: new(sync.Map)})
				})
			}
		})
	}
}

// checkWithout fails the suite if Without has a name that no test has.
func (o *Options) checkWithout(t *testing.T, chapters []chapter) {
	t.Helper()
	known := map[string]bool{}
	for _, c := range chapters {
		for _, test := range c.tests {
			known[c.name+"/"+test.name] = true
		}
	}
	for _, name := range o.Without {
		if !known[name] {
			t.Errorf("Options.Without: there is no test %q", name)
		}
	}
}

// RunLog runs the suite on the event logs that open returns, one for each test, several at a time.
func RunLog(t *testing.T, open OpenLog, opts *LogOptions) {
	var declared LogOptions
	if opts != nil {
		declared = *opts
	}
	_, declared.sweeps = open(t).(driver.LogSweeper)
	for _, test := range logTests {
		if test.needs != nil && !test.needs(&declared) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(&logHarness{T: t, log: open(t), opts: &declared})
		})
	}
}

type chapter struct {
	name    string
	tests   []storeTest
	sweeps  bool // the chapter is for stores that are Sweepers
	imports bool // the chapter is for stores that are Importers
	records bool // the chapter is for stores that are RecordProviders
	// The chapter is for stores that are MemoryProviders.
	memories bool
	// The chapter is for stores that are UsageProviders.
	usages bool
	// The chapter is for stores that are BlobProviders.
	blobs bool
}

type storeTest struct {
	name  string
	run   func(*harness)
	needs func(*Options) bool
}

type logTest struct {
	name  string
	run   func(*logHarness)
	needs func(*LogOptions) bool
}

var (
	recordChapter = chapter{name: "Record", tests: recordTests, records: true}
	memoryChapter = chapter{name: "Memory", tests: memoryTests, memories: true}
	blobChapter   = chapter{name: "Blob", tests: blobTests, blobs: true}
)

var chapters = []chapter{
	{name: "TwoWriters", tests: twoWriterTests},
	{name: "Commit", tests: commitTests},
	{name: "EventsOfCommit", tests: commitEventTests},
	{name: "Guard", tests: guardTests},
	{name: "Again", tests: againTests},
	{name: "Run", tests: runTests},
	{name: "RunText", tests: runTextTests},
	{name: "Message", tests: messageTests},
	{name: "State", tests: stateTests},
	{name: "Checkpoint", tests: checkpointTests},
	{name: "RewindRun", tests: rewindRunTests},
	{name: "Branch", tests: branchTests},
	{name: "List", tests: listTests},
	{name: "Archive", tests: archiveTests},
	{name: "Tenant", tests: tenantTests},
	{name: "Staging", tests: stagingTests},
	{name: "Stop", tests: stopTests},
	{name: "Lease", tests: leaseTests},
	{name: "Call", tests: callTests},
	{name: "Inbox", tests: inboxTests},
	{name: "Wait", tests: waitTests},
	{name: "Due", tests: dueTests},
	{name: "Clock", tests: clockTests},
	{name: "Queue", tests: queueTests},
	{name: "Cache", tests: cacheTests},
	{name: "Delete", tests: deleteTests},
	{name: "Removal", tests: removalTests, sweeps: true},
	{name: "Restore", tests: restoreTests, sweeps: true},
	{name: "Purge", tests: purgeTests, sweeps: true},
	{name: "Expiry", tests: expiryTests, sweeps: true},
	{name: "Import", tests: slices.Concat(importTests, copyTreesTests), imports: true},
	recordChapter,
	memoryChapter,
	{name: "Usage", tests: usageTests, usages: true},
	blobChapter,
	{name: "Context", tests: contextTests},
	{name: "Field", tests: fieldTests},
	{name: "Hostile", tests: hostileTests},
	{name: "Limits", tests: limitTests},
	{name: "History", tests: historyTests},
	{name: "Reopen", tests: reopenTests},
	{name: "Fault", tests: faultTests},
}

func needsReopen(o *Options) bool { return o.Reopen != nil }
func needsSecond(o *Options) bool { return o.Second != nil }
func needsFault(o *Options) bool  { return o.Fault != nil }
