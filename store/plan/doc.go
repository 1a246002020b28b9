// Package plan computes what a commit means. From what a store has seen of a session and a driver.Commit, it makes a
// Delta: the conditions under which the write holds, the session's next row, and the other rows to insert, update and
// remove. A store compares and writes; it knows nothing of steps, runs or suspension. The package does no I/O and reads
// no clock.
//
// Every store's Commit has the same steps:
//
//  1. Look at the session's row: read it, or take the one that an earlier commit returned.
//  2. [Work] makes the delta and asks for the few other rows that some commits depend on. Its error is the commit's
//     error. No delta and no error mean that the commit was applied before, and the row is the answer. [Try] does the
//     same with a row that was not read for this commit; only a delta that it returns counts.
//  3. Write the delta if its conditions hold, all or nothing, with the store's times filled in. The row that [Delta.At]
//     returns is the answer.
//  4. If a condition did not hold, read the row again, set Seen.Doubt, and start over at 2.
//
// A store that keeps the session locked from 1 to 3 reaches 4 only because of a condition that it did not look up.
package plan
