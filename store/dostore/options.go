package dostore

import "net/http"

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Secret is the secret that the worker was deployed with, as CAIRN_SECRET or CAIRN_SECRET_NEXT. It is required unless
	// the URL has it.
	Secret string
	// Client makes the connections; nil means http.DefaultClient.
	Client *http.Client
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means driver.DefaultMaxEvent.
	MaxEvent int
	// Connections is how many objects the store stays connected with, in addition to those whose logs are followed; 0
	// means 512.
	Connections int
}
