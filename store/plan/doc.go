// Package plan computes the meaning of a commit. From the session as a store has seen it and a driver.Commit, it makes
// a Delta: the conditions of the write, the session's next row, and the other rows to insert, update and remove. A
// store compares and writes; it has no code for steps, runs or suspension. The package does no I/O and reads no clock.
//
// Every store's Commit has the same steps:
//
//  1. Get the session's row: read it, or use the row that an earlier commit returned.
//  2. [Work] makes the delta and asks for the few other rows that some commits depend on. Its error is the commit's
//     error. If it returns neither a delta nor an error, the commit was applied before: return the row. [Try] does the
//     same with a row that was not read for this commit; use only a delta that it returns, not its error.
//  3. Write the delta if its conditions hold, all or nothing, with the store's times filled in. Return the row that
//     [Delta.At] returns.
//  4. If a condition did not hold, read the row again, set Seen.Doubt, and start over at 2.
//
// A store that locks the session from 1 to 3 reaches 4 only because of a condition that it did not look up.
package plan
