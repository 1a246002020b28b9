// Package server serves the sessions of an engine over HTTP: turns and their control, streams of events that any
// process can resume, the messages and runs of sessions, and the inbox of pending calls.
//
// A [Handler] is an http.Handler with all routes. Each route decodes a request, checks access to the session, calls a
// method of the engine, and writes the result as JSON. An error is a problem document (RFC 9457) with the code of
// [cairn.Error].
package server
