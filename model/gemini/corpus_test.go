package gemini_test

import "testing"

func TestCorpus(t *testing.T) { adapter.Corpus(t, false) }
