// Package plan works out what a commit means. From what a store has seen of a session, and a store.Commit, it makes a
// Delta: the conditions under which the write holds, the session's next row, and the rows to insert, update and remove
// beside it. A store compares and writes; it knows nothing of steps, runs or waits. The package does no I/O and reads no
// clock.
//
// A store's Commit is, whatever it stands on:
//
//  1. See the session's row: read it, or take the one that an earlier commit returned.
//  2. [Work] makes the delta, and asks for the few things beside the row that some commits depend on. An error is the
//     commit's; no delta and no error means that the commit has happened before, and the row is the answer. What was worked
//     out from a row that is not read for this commit ([Try]) counts only if there is a delta.
//  3. Write the delta if its conditions hold, all or nothing, and fill in the times that are the store's. The row that
//     [Delta.At] returns is the answer.
//  4. If a condition did not hold, read the row again, set Seen.Doubt, and begin again at 2.
//
// A store that holds the session locked from 1 to 3 comes to 4 only by a condition that it did not look up.
package plan
