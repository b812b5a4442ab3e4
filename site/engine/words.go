package engine

// words of the command line in advice, and what a page says and offers instead.
var words = []struct{ flag, instead, offer string }{
	{"read what is there with --partial", "read what is there (the button does)", "partial"},
	{"Allow more with --max-memory", "A tab has no more: `vramscope analyze` on this machine reads it", ""},
}
