// Package backend holds what stores share beside the meaning of a commit, which is in package plan: a session in one
// piece, for stores that keep it so; batches of events as one value; values as JSON, and the scripts of a schema.
// docs/WRITING_A_STORE.md shows how it all goes together.
package backend
