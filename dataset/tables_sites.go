package dataset

// Sites is one row for each line of code that holds memory at a GPU's peak.
var Sites = &Table{"sites", "vramscope.sites/1",
	"one row for each call site that holds memory at the allocated peak of each GPU, most bytes first", []Column{
		runColumn,
		deviceColumn,
		rankColumn,
		of(countColumn("place", "place in that order, from 0"), func(s *siteRow) any { return s.index }),
		of(wordOrNull("category", "what the memory is for; null: not told"), func(s *siteRow) any { return s.Category }),
		of(wordOrNull("function", "where it was allocated; null: no stack"), func(s *siteRow) any { return s.Function }),
		of(wordOrNull("file", "of that function"), func(s *siteRow) any { return s.File }),
		of(countOrNull("line", "in that file"), func(s *siteRow) any { return s.Line }),
		of(wordOrNull("from_function", "the user's function that led there, when function is a library's"),
			func(s *siteRow) any { return s.from.Function }),
		of(wordOrNull("from_file", "of that function"), func(s *siteRow) any { return s.from.File }),
		of(countOrNull("from_line", "in that file"), func(s *siteRow) any { return s.from.Line }),
		of(wordOrNull("op", "operator or autograd node that allocated, or torch.compile: code that it wrote"),
			func(s *siteRow) any { return s.Op }),
		of(bytesColumn("bytes", "held at the peak"), func(s *siteRow) any { return s.Bytes }),
		of(countColumn("blocks", "number of blocks"), func(s *siteRow) any { return s.Blocks }),
		of(Column{Name: "oom", Type: boolean, Doc: "a request failed on this GPU"}, func(s *siteRow) any { return s.oom }),
	}, siteRows}

// Settings is one row for each thing that was tried by replay.
var Settings = &Table{"settings", "vramscope.settings/1",
	"one row for each setting or change under which a run's requests were replayed; the first is the recorded one", []Column{
		runColumn,
		deviceColumn,
		of(wordColumn("name", "of the scenario"), func(s *settingRow) any { return s.Name }),
		of(wordOrNull("settings", "PYTORCH_CUDA_ALLOC_CONF; null: the defaults"), func(s *settingRow) any { return s.Settings }),
		of(Column{Name: "changes", Type: listOf(text), Doc: "changes to the program"},
			func(s *settingRow) any { return s.Changes }),
		of(bytesColumn("peak_allocated_bytes", "the allocated peak"), func(s *settingRow) any { return s.Allocated }),
		of(bytesColumn("peak_reserved_bytes", "the reserved peak"), func(s *settingRow) any { return s.Reserved }),
		of(bytesColumn("saves_bytes", "off the reserved peak, against the recorded scenario; negative: takes more"),
			func(s *settingRow) any { return s.Saves }),
		of(Column{Name: "oom", Type: boolean, Doc: "a request fails"}, func(s *settingRow) any { return s.OOM }),
		of(Column{Name: "survived", Type: boolean, Doc: "a request that failed when recorded is met"},
			func(s *settingRow) any { return s.Survived }),
		of(Column{Name: "complete", Type: boolean, Doc: "the whole recording was replayed; else the peaks are those up to the " +
			"first failure"}, func(s *settingRow) any { return s.Complete }),
		of(countColumn("retries", "times that the allocator had to give cached memory back"),
			func(s *settingRow) any { return s.Retries }),
	}, settingRows}
