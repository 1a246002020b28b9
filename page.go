package cairn

// Page is one page of a list.
type Page[T any] struct {
	// Items are the items of the page. A page may have none although others follow.
	Items []T `json:"items"`
	// Next is the cursor of the next page; empty on the last one.
	Next string `json:"next,omitempty"`
}
