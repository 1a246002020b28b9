package hosttest

import (
	"maps"
	"slices"
	"testing"
)

// Set selects scenarios by name. The value names the behaviour of a pair of host and store that the scenario shows and
// that memory cannot show. Behaviour of the loop itself is shown in memory, so a set leaves it out.
type Set map[string]string

// Every selects all scenarios. A scenario that none of the sets below selects is played in memory and under Every.
var Every Set

// OnStore covers the behaviour in which a store may differ from memory, with runs in goroutines.
var OnStore = Set{
	"approval":                "a suspended step, its call and its answer are rows, written and read by two processes",
	"double-answer":           "of two answers the row keeps one",
	"answer-race":             "the same of answers at the same moment: a compare-and-set",
	"resume-race":             "of two resumes one takes the lease",
	"deadline":                "a deadline passes by the store's clock, and Due lists it",
	"child-deadline":          "so does a child's, which is the root's as well",
	"two-children":            "the calls of a tree are one list, in their order",
	"grandchild-approval":     "a tree of three is found by its root and by each parent",
	"companions-together":     "several children of one parent, beside a call of its own",
	"crash-companion-waits":   "a companion's session is written under the next lease",
	"busy-enqueue-crash":      "a queue is kept in its order, and Due lists it",
	"waiting-answered-crash":  "a session that is ready is due although turns are queued",
	"waiting-partly-withdraw": "one commit closes calls and queues a turn",
	"hook-writes-waiting":     "one commit suspends, opens calls and changes the state",
	"steer":                   "one commit takes several turns out of the queue",
	"steer-crash-joined":      "the next lease finds them in the transcript, and nowhere else",
	"queue":                   "the queue is listed with what was kept of each turn",
	"busy-rollback":           "one commit removes messages, state and checkpoints",
	"busy-interrupt":          "the watch of stops reaches another process",
	"interrupt-resumed-tree":  "so do the stops of a tree",
	"cache-crash-per-tool":    "cached results come and go with their commit",
	"cache-branch":            "a branch has none of them",
	"branch-waiting-tree":     "a branch copies what is before its point and nothing else",
	"fork":                    "the changes of a fork are read back with its row, and in its steps",
	"replace":                 "one commit removes messages, state and checkpoints, and begins a run",
	"rewind-paused-tree":      "a rewind truncates, and drops the calls of the tree",
	"resume-from-checkpoint":  "the same with the state of a checkpoint",
	"inbox":                   "filters and pages of calls",
	"claim":                   "claims are compared and set, and lapse by the store's clock",
	"quorum-majority":         "the decisions of several people are one trail",
	"answer-deleted":          "a deletion hides calls at once",
	"once":                    "what was kept is read back with its question",
	"toolset-waiting":         "what was pinned is read back with its message",
	"compact":                 "another process reads a session from its latest summary on, and a branch from before it",
	"compact-by-hand-crash":   "one commit adds a summary and its note for the log, which another process publishes",
	"ask-twice":               "several questions of one call are rows of one step, in their order",
	"ask-votes":               "the answers of several people are one trail",
	"crash-answered":          "a lease lapses by the store's clock, and Due lists the session",
	"crash-suspending-read":   "a log that its writer left unfinished is completed by another process",
	"crash-approved-staged":   "staged replies and results are read under the next lease",
	"crash-two-children":      "the leases of a tree lapse each by itself",
	"crash-ending-dynasty":    "the stop of each wait in a tree is kept with its session, which is due for it",
	"interrupt-crashed-tree":  "a stop of a session whose process is dead",
	"workers":                 "several workers take each due session once",
	"interval":                "one commit of several steps",
	"per-tool":                "stages between commits",
	"title":                   "a step that writes whose a session is, and what it is called",
	"switch-crash":            "another process reads back which tools are off",
	"sweep":                   "a session expires and is purged with its tree, by the store's clock",
	"sweep-crash":             "what a dead process hid is purged by another one",
	"crash-anywhere":          "a process dies at operations of this store, at moments between its round trips",
	"effect-tried-again":      "a row of the ledger is opened, answered and written again under the next lease",
	"limits":                  "what one store refuses every store refuses, in the same words",
	"race-of-verbs":           "all verbs at the same moment: what the store's transactions exclude",
}

// OnHost covers the behaviour in which a host may differ from goroutines: replay, handover, cancellation and takeover.
var OnHost = Set{
	"serial-approval":           "calls run one after the other, and the ones behind a pending call in the next turn",
	"serial-crash-per-tool":     "a process of the host dies behind calls that ran in order",
	"hooks":                     "each effect that calls hooks is carried out once, in its order",
	"phases":                    "so are the parts of a step",
	"tool-failures":             "errors and panics of tools come through the host as they are",
	"retries":                   "a failed model call is retried by the loop, and not by the host as well",
	"guarded-output":            "output and guards come through the host's encoding",
	"step-limit":                "a run that fails ends the turn on the host",
	"approval":                  "a suspended turn ends on the host, and the next one begins",
	"other-process":             "the next one begins in another process of the host",
	"toolset-crash":             "the process that takes a turn over has the tools that it began with",
	"memory-waiting":            "a memory is read once, and learns once from a turn that two processes of the host drive",
	"memory-crash":              "nor does a process that takes the turn over read it again",
	"workspace-waiting":         "a call sees the workspace as a call in another process of the host left it",
	"workspace-crash":           "nor does it see what a call of a discarded step did",
	"compact-crash-staged":      "a summary comes through the host's encoding with the reply that it was made for",
	"compact-refused":           "a request is made again within its effect, and not by the host as well",
	"compact-crash":             "the host repeats a step whose process dies while it makes the summary",
	"ask-twice":                 "a tool runs once more for each answer, in other processes of the host",
	"ask-child":                 "so does a child's, whose parent's turn ends with each question",
	"crash-asked-again":         "a process of the host dies between two questions",
	"effect-confirmed":          "a process of the host dies in an effectful tool, which the next one does not call",
	"fork":                      "a turn on the host begins within a step that waited in another process",
	"effect-stopped":            "a stop of an effectful tool that is at work on the host",
	"resume-race":               "two processes start the same turn on the host",
	"deadline":                  "a worker starts a turn on the host because time has passed",
	"two-children":              "parallel children, each a part of its parent's turn",
	"grandchild-approval":       "children of children, which are suspended",
	"child-fails":               "a child that fails is a result, and no failure of the host's",
	"companion":                 "a companion's turn within its parent's",
	"background":                "a companion's turn that its parent does not wait for",
	"background-message":        "the same with a message that interrupts it",
	"interrupt-child-at-work":   "a stop reaches a child that the host drives",
	"abort-child-at-work":       "so does an abort",
	"interrupt-approved":        "a stop of a turn that was resumed",
	"interrupt-answered":        "an answer that came between two effects of a turn that is stopped",
	"stop-run":                  "a tool that was at work on the host is told from one that had not begun",
	"tool-retries":              "a tool is called again within its effect, and not by the host as well",
	"tool-retries-stopped":      "a stop ends the wait for the next attempt",
	"around":                    "contexts go through the hooks on the host",
	"busy-enqueue":              "the next turn starts where the one before ended",
	"waiting-answered-refuse":   "a turn starts another one, which waited, and follows it",
	"waiting-partly-withdraw":   "the same with calls that are closed while their turn waits",
	"steer":                     "a message joins a turn that the host drives",
	"steer-end":                 "and becomes the next one where that ended first",
	"steer-crash":               "a process of the host dies with the commit that takes a message in",
	"busy-rollback-child":       "a turn on the host is rolled back, with its child's",
	"interrupt-wide-tree":       "a stop reaches all of a tree that the host drives",
	"child-depth-limit":         "a child that is not begun is a result, and no turn on the host",
	"changed-tool-kinds":        "a turn resumes in a process of the host whose tools are others",
	"changed-sub-agent-renamed": "the turn of a child that is gone does not keep its parent's",
	"crash-answered":            "a worker takes a turn over from the host's dead process",
	"crash-resuming":            "so it does one that was begun but never handed to the host",
	"crash-approved-staged":     "what a dead process staged is not repeated",
	"crash-child-halfway":       "a child is taken over with its parent",
	"crash-grandchild-resumed":  "so is one two levels below that was resumed",
	"crash-ending-dynasty":      "a tree that waits is ended by processes that the host drives nothing for",
	"crash-companion-again":     "so is a companion",
	"crash-background":          "so is one in the background, which is a turn of its own on the host",
	"interrupt-crashed-tree":    "a stop of a turn that the host no longer drives",
	"workers":                   "several workers hand turns to the host",
	"auto-resume-tree":          "the process that takes the last answer hands the turn to the host",
	"manual":                    "steps that are committed together are repeated together",
	"switch-running":            "context that is added between two effects",
	"crash-anywhere-per-tool":   "a process dies at operations of a turn on this host",
	"limits":                    "what cannot be kept does not come back through the host's encoding either",
	"race-of-verbs":             "turns are begun, stopped and rolled back at the same moment",
	"judged-once":               "what hooks and a guard decide at a step's end reaches the commit through the host",
	"guard-stop-condition":      "so does what a stop condition decides",
	"unruly-hooks":              "code that ends its goroutine takes none of the host's with it",
	"unruly-tools":              "nor does that of tools, whose errors come through as they are",
}

// OnPair is for a host and a store that each have their own clock and server. [OnStore] and [OnHost] cover the rest
// of each.
var OnPair = Set{
	"approval":                "a suspended turn ends on the host, and its answer begins the next turn",
	"deadline":                "the store's clock begins a turn on the host",
	"sweep-worker":            "a worker of the host sweeps by the store's clock, and leaves its turns alone",
	"child-approval":          "a child's wait ends its parent's turn on the host",
	"interrupt-child-at-work": "the store's watch ends what the host drives",
	"busy-enqueue-crash":      "a queued turn begins on the host, by the store's list of what is due",
	"busy-repeated":           "a message given again finds its turn on the host, and its queued turn in the store",
	"waiting-answered-crash":  "so does one that was queued behind answers",
	"steer":                   "a message in the store joins what the host drives",
	"crash-approved-staged":   "a lease lapses by the store's clock while the host still has the turn",
	"crash-background":        "the same of a turn that no other waits for",
	"crash-anywhere":          "a process dies between an operation of the store and one of the host",
	"race-of-verbs":           "turns of one session are begun on the host in the order of the store's leases",
}

// OnMix is for a process on one host that leaves work behind, dies or requests something, and a process on another
// host that takes over.
var OnMix = Set{
	"other-process":            "a pending call is answered on another host",
	"resume-race":              "two hosts start the same turn",
	"answer-race":              "two processes on different hosts answer at once",
	"deadline":                 "a worker on another host settles what is late",
	"grandchild-approval":      "a tree that began on one host resumes on another",
	"two-children":             "so does one of two suspended children",
	"background-message":       "a message reaches a companion whose turn is on another host",
	"interrupt-child-at-work":  "a stop comes from another host",
	"busy-enqueue-crash":       "the queue of a dead process is begun on another host",
	"waiting-answered-refuse":  "a turn on another host resumes the one that waited, and follows it",
	"steer":                    "a message comes from another host",
	"busy-rollback-child":      "a turn is rolled back by a process on another host",
	"crash-resuming":           "a turn that was begun for one host is handed to another",
	"crash-approved-staged":    "what was staged on one host is not repeated on another",
	"crash-child-halfway":      "a child changes hosts with its parent",
	"crash-grandchild-resumed": "so does one two levels below",
	"crash-ending-dynasty":     "a tree that waits is ended by processes on different hosts",
	"crash-companion-again":    "so does a companion",
	"crash-background":         "so does one in the background",
	"interrupt-crashed-tree":   "a stop of what a dead process drove on another host",
	"workers":                  "workers on all hosts share what is due",
	"auto-resume-tree":         "the process that takes the last answer resumes, on its host",
	"compact-crash-after":      "a turn on another host begins with the summary of a dead process",
	"retry-child":              "a failed turn is retried on another host",
	"fork":                     "a fork of a session of one host continues on another",
	"crash-anywhere":           "a process dies at operations of a turn, and the next one is on another host",
	"race-of-verbs":            "verbs of processes on all hosts at the same moment",
}

// OnSplit is for sessions and events in different stores. A process may die after a write to one and before the
// write to the other, and no write fences both.
var OnSplit = Set{
	"approval":                "readers see a suspension that is committed elsewhere",
	"branch-paused":           "a branch has a log of its own",
	"answer-deleted":          "a deletion drops the log as well as the rows",
	"sweep":                   "so does a purge",
	"busy-rollback":           "the log keeps what the store removes",
	"background":              "two runs write to the log of one tree",
	"interrupt-resumed-tree":  "a stop is published once, by the process that ends the run",
	"crash-suspending":        "an unpublished suspension is published by the resume",
	"crash-suspending-read":   "or by a reader",
	"crash-interrupting-tree": "the same of the end of a tree",
	"crash-child-ending":      "and of the end of a child",
	"crash-ending-dynasty":    "and of the end of each session of a tree, by another process each",
	"crash-approved-staged":   "events of a run that lost its lease do not come between those of the next",
	"crash-anywhere":          "a process dies between a write to one and a write to the other",
	"crash-anywhere-per-tool": "the same with stages",
	"race-of-verbs":           "all verbs at the same moment",
}

// of returns the scenarios of the set in their order. A name without a scenario fails the test.
func (set Set) of(t *testing.T, all []scenario) []scenario {
	t.Helper()
	if set == nil {
		return all
	}
	var chosen []scenario
	for _, sc := range all {
		if _, ok := set[sc.name]; ok {
			chosen = append(chosen, sc)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.ContainsFunc(all, func(sc scenario) bool { return sc.name == name }) {
			t.Errorf("the set has %q, which is no scenario", name)
		}
	}
	return chosen
}
