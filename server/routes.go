package server

import (
	"net/http"

	"github.com/cairn-agents/cairn"
)

// routes returns the routes of the server. A route about a session calls [request.open] first.
func routes() []route {
	return []route{
		answer("POST", "/start", "Start a turn, of a new session or an existing one", http.StatusAccepted, start),
		answer("POST", "/resume", "Resume a session", http.StatusAccepted, resume),
		answer("POST", "/retry", "Run a failed turn again from its last committed step", http.StatusAccepted, retry),
		answer("GET", "/status", "A session's status", http.StatusOK, status),
		answer("POST", "/interrupt", "Stop a run and keep its output so far", http.StatusOK, interrupt),
		answer("POST", "/abort", "Stop a run as failed", http.StatusOK, abort),
		answer("POST", "/submit-tool-result", "Answer a pending call", http.StatusOK, submit),
		stream[cairn.Event]("GET", "/sse", "The events of a session, or of one of its runs", events),

		lastOf("messages", stream[chatChunk]("POST", "/chat", "Send a message or answers to pending calls, as the AI SDK's chat does", chat)),
		answer("GET", "/chat/{id}", "The conversation as a chat client shows it, the newest messages first", http.StatusOK, getChat),
		answer("PATCH", "/chat/{id}", "Archive a chat, or change it as PATCH /sessions/{id} does", http.StatusOK, patchChat),
		answer("DELETE", "/chat/{id}", "Delete a chat: the sessions of its thread", http.StatusNoContent, deleteChat),
		answer("GET", "/chat/{id}/branches", "The versions of the chat that an edit has replaced, newest first", http.StatusOK, listBranches),
		stream[chatChunk]("GET", "/chat/{id}/stream", "The turn under way, from its beginning; 204 if no turn is under way", resumeChat),
		answer("POST", "/chat/{id}/submit-tool-result", "Answer a pending call", http.StatusOK, chatSubmit),
		answer("POST", "/chat/{id}/interrupt", "Stop the turn and keep its output so far", http.StatusOK, chatInterrupt),
		answer("POST", "/chat/{id}/abort", "Stop the turn as failed", http.StatusOK, chatAbort),

		answer("POST", "/sessions", "Create a session", http.StatusCreated, createSession),
		answer("GET", "/sessions", "List sessions, newest first", http.StatusOK, listSessions),
		answer("GET", "/sessions/{id}", "A session", http.StatusOK, getSession),
		answer("PATCH", "/sessions/{id}", "Change a session's title, tags, metadata, expiry or user, or archive it", http.StatusOK, patchSession),
		answer("DELETE", "/sessions/{id}", "Delete a session with its tree", http.StatusNoContent, deleteSession),
		answer("POST", "/sessions/{id}/restore", "Restore a session that was deleted or has expired", http.StatusOK, restoreSession),
		answer("GET", "/sessions/{id}/usage", "The usage of a session, alone and with the sessions below it", http.StatusOK, usageOf),
		answer("GET", "/sessions/{id}/snapshot", "The transcript with the cursor of the events that follow it", http.StatusOK, snapshot),
		answer("PUT", "/sessions/{id}/state", "Set the state of a session between turns", http.StatusOK, putState),
		answer("GET", "/sessions/{id}/messages", "The messages that a chat shows", http.StatusOK, listMessages),
		answer("GET", "/sessions/{id}/messages/{message}/request", "The request that a reply answered: the instructions and tools as they were", http.StatusOK, getRequest),
		file("/sessions/{id}/messages/{message}/files/{file}", "A file of a message", getFile),
		answer("GET", "/sessions/{id}/runs", "The runs, by turn", http.StatusOK, listRuns),
		answer("GET", "/sessions/{id}/checkpoints", "The checkpoints, in order of writing", http.StatusOK, listCheckpoints),
		answer("GET", "/sessions/{id}/checkpoints/{checkpoint}", "A checkpoint with the state at that point", http.StatusOK, getCheckpoint),
		answer("GET", "/sessions/{id}/decisions", "The decisions about the session's pending calls, by call", http.StatusOK, listDecisions),
		answer("POST", "/sessions/{id}/checkpoints", "Make a checkpoint of a session between turns", http.StatusCreated, makeCheckpoint),
		answer("GET", "/sessions/{id}/stream", "The extent of the session's event stream, and whether it has ended", http.StatusOK, streamOf),
		answer("POST", "/sessions/{id}/events", "Publish a custom event on the session's stream", http.StatusNoContent, emit),
		answer("GET", "/sessions/{id}/queue", "The queued turns, in order", http.StatusOK, listQueue),
		answer("DELETE", "/sessions/{id}/queue/{run}", "Remove a turn from the queue", http.StatusNoContent, dequeue),
		answer("POST", "/sessions/{id}/branch", "Make a new session from this one", http.StatusCreated, branch),
		answer("POST", "/sessions/{id}/rewind", "Rewind the session to a checkpoint", http.StatusOK, rewind),

		answer("GET", "/agents", "The agents that new sessions may have", http.StatusOK, listAgents),

		answer("GET", "/inbox", "Pending calls, oldest first", http.StatusOK, inbox),
		answer("GET", "/inbox/{root}/{call}", "A pending call with its audit trail", http.StatusOK, getCall),
		answer("POST", "/inbox/{root}/{call}/claim", "Reserve a pending call for a time", http.StatusOK, claim),
		answer("POST", "/inbox/{root}/{call}/release", "Release a claim", http.StatusOK, release),

		anonymous(answer("GET", "/openapi.json", "This API as an OpenAPI 3.1 document", http.StatusOK, getOpenAPI)),
		anonymous(answer("GET", "/healthz", "Whether the process is alive", http.StatusOK, healthz)),
		anonymous(answer("GET", "/readyz", "Whether the process accepts requests", http.StatusOK, readyz)),
	}
}

func lastOf(list string, r route) route {
	r.lastOf = list
	return r
}

func anonymous(r route) route {
	r.anonymous = true
	return r
}
