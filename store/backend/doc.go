// Package backend holds what stores share in addition to package plan, which defines the meaning of a commit: a session
// as one document, for stores that keep it so; batches of events as one value; values as JSON; and the scripts of a
// schema. docs/WRITING_A_STORE.md shows how the parts fit together.
package backend
