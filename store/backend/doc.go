// Package backend has code that stores share, in addition to package plan, which defines the meaning of a commit. It
// encodes a session as one document, batches of events as one value, and values as JSON, and it has the scripts of a
// schema. docs/WRITING_A_STORE.md shows how the parts fit together.
package backend
