// Package cloudflare has the worker through which package dostore keeps sessions in Durable Objects. It also drives runs of
// a server by Workflows, and is the front of a server in a container. See docs/CLOUDFLARE.md for its deployment.
package cloudflare

import "embed"

// Main is the name, in [Worker], of the worker's main module.
const Main = "worker/index.js"

// Worker has the ES modules of the worker, in the directory worker.
//
//go:embed worker/*.js
var Worker embed.FS
