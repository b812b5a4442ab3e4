package dataset

// Sites is one row for each line of code that holds memory at a GPU's peak.
var Sites = &Table{"sites", "vramscope.sites/1",
	"one row for each call site that holds memory at the allocated peak of each GPU, most bytes first", []Column{
		runColumn, deviceColumn, rankColumn,
		countColumn("place", "place in that order, from 0"),
		wordOrNull("category", "what the memory is for; null: not told"),
		wordOrNull("function", "where it was allocated; null: no stack"),
		wordOrNull("file", "of that function"),
		countOrNull("line", "in that file"),
		wordOrNull("from_function", "the user's function that led there, when function is a library's"),
		wordOrNull("from_file", "of that function"),
		countOrNull("from_line", "in that file"),
		wordOrNull("op", "operator or autograd node that allocated, or torch.compile: code that it wrote"),
		bytesColumn("bytes", "held at the peak"),
		countColumn("blocks", "number of blocks"),
		{Name: "oom", Type: boolean, Doc: "a request failed on this GPU"},
	}}

// Settings is one row for each thing that was tried by replay.
var Settings = &Table{"settings", "vramscope.settings/1",
	"one row for each setting or change under which a run's requests were replayed; the first is the recorded one", []Column{
		runColumn, deviceColumn,
		wordColumn("name", "of the scenario"),
		wordOrNull("settings", "PYTORCH_CUDA_ALLOC_CONF; null: the defaults"),
		{Name: "changes", Type: listOf(text), Doc: "changes to the program"},
		bytesColumn("peak_allocated_bytes", "the allocated peak"),
		bytesColumn("peak_reserved_bytes", "the reserved peak"),
		bytesColumn("saves_bytes", "off the reserved peak, against the recorded scenario; negative: takes more"),
		{Name: "oom", Type: boolean, Doc: "a request fails"},
		{Name: "survived", Type: boolean, Doc: "a request that failed when recorded is met"},
		{Name: "complete", Type: boolean, Doc: "the whole recording was replayed; else the peaks are those up to the first " +
			"failure"},
		countColumn("retries", "times that the allocator had to give cached memory back"),
	}}
