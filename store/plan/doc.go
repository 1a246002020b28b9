// Package plan computes what a commit means. From what a store has seen of a session, and a store.Commit, it makes a
// Delta: the conditions under which the write holds, the session's next row, and the other rows to insert, update and
// remove. A store compares and writes; it knows nothing of steps, runs or suspension. The package does no I/O and reads
// no clock.
//
// Every store's Commit has the same steps:
//
//  1. See the session's row: read it, or take the one that an earlier commit returned.
//  2. [Work] makes the delta, and asks for the few other things that some commits depend on. An error is the commit's;
//     no delta and no error mean that the commit has happened before, and the row is the answer. [Try] does the same
//     with a row that was not read for this commit, and counts only if it returns a delta.
//  3. Write the delta if its conditions hold, all or nothing, with the store's times filled in. The row that [Delta.At]
//     returns is the answer.
//  4. If a condition did not hold, read the row again, set Seen.Doubt, and begin again at 2.
//
// A store that holds the session locked from 1 to 3 reaches 4 only by a condition that it did not look up.
package plan
