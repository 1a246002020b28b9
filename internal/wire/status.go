// Package wire has what package client and package server share of their protocol: the bodies of requests that are not
// types of package client, and the forms that differ from those of Go.
package wire

import "github.com/cairn-agents/cairn"

// RunStatus returns the status of a run on the wire. That of a suspended run includes the reason, as in
// suspended_client_tool; [cairn.RunStatus] decodes it.
func RunStatus(status cairn.RunStatus, reason cairn.Reason) cairn.RunStatus {
	if status != cairn.RunSuspended || reason == "" {
		return status
	}
	return status + "_" + cairn.RunStatus(reason)
}
