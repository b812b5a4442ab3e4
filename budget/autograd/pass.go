package autograd

// Pass is what a step's setting comes down to for a machine: the values that decide what its operations allocate and keep.
type Pass struct {
	Batch int64 // sequences
	// TokenRanks are those over which tokens are divided between products that tensor parallelism divides; 0: each has all.
	TokenRanks  int64
	KeepsPart   bool // its part of the tokens stays for backward, where they are gathered again
	Inference   bool
	Compiles    bool
	CUDAGraphs  bool // what compiled code makes lies in a pool of its own
	InputsLeave bool // inputs of checkpointed functions wait for backward in host memory
	NoGraph     bool // a checkpointed function's first run makes no graph, not even for what is no saved tensor

	Mixed8    bool // packed products are bitsandbytes' in 8 bits
	Hoards    bool // products of packed weights keep their inputs on the graph
	TwoCopies bool // unpacking makes float16 first
	LooksUp   bool // unpacking looks each half of the elements up by itself

	Blocks8   bool // products in 8 bits have a scale for each 32 elements
	Gathers8  bool // their weights are gathered in 8 bits
	Gradient2 bool // their weights' gradients are made in 16 bits

	Tied *Parameter // the embeddings' weight, where one compiled function has their gradient and the head's; nil without
	// Reduce hands a finished gradient to other ranks; it says whether it took the reference. Nil: nobody wants them.
	Reduce func(q *Parameter, s *Storage) bool
}
