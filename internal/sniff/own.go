package sniff

import "bytes"

// ownTexts are words of which one set stands near the beginning of every report
// for a terminal that says something of memory or steps.
var ownTexts = [][]string{
	{"\n  recorded         "}, // analyze
	{"\n  more: -v   page: -o report.html   ticket: -o report.md\n"}, // analyze in short
	{"\nLogs, monitors and traces\n  "},                              // analyze, of logs alone
	{"\nLogs, nvidia-smi and traces\n  "},                            // the same, of versions up to November 2026
	{"\nBy category: ", "\nBy call site: "},                          // diff
	{"peak allocated  segments  retries  out of memory\n"},           // whatif
	{"\nBy phase\n", "peak          end  largest\n"},                 // budget
	{"\nBy phase         peak         end          largest\n"},       // budget, of versions up to November 2026
}

// IsReport recognises what this program wrote, and pages at large, by a file's
// beginning.
func IsReport(head []byte) bool {
	start := bytes.ToLower(bytes.TrimLeft(head[:min(len(head), 256)], "\xef\xbb\xbf \t\r\n"))
	switch {
	case bytes.HasPrefix(start, []byte("<!doctype html")), bytes.HasPrefix(start, []byte("<html")):
		return true
	case bytes.HasPrefix(start, []byte("{")):
		return bytes.Contains(start, []byte(`"vramscope.`)) && !bytes.Contains(start, []byte(`"vramscope.labels/`)) &&
			!IsRunRecord(head)
	}
	for _, words := range ownTexts {
		found := true
		for _, w := range words {
			found = found && bytes.Contains(head, []byte(w))
		}
		if found {
			return laidOut(head)
		}
	}
	return false
}

// IsRunRecord recognises the run.json of `vramscope run`. A batch writes another of that name.
func IsRunRecord(head []byte) bool {
	start := bytes.TrimLeft(head[:min(len(head), 256)], "\xef\xbb\xbf \t\r\n")
	return bytes.HasPrefix(start, []byte("{")) && bytes.Contains(start, []byte(`"vramscope.run/1"`)) &&
		bytes.Contains(start, []byte(`"command"`))
}

// firstLines is how many lines a report's title, notes and verdict may take.
const firstLines = 24

// laidOut reports whether a text is a report from its beginning to its end, not a
// job's log into which one was printed: below the first paragraph, a line that
// isn't indented is a heading or a note.
func laidOut(text []byte) bool {
	first, before := 0, []byte{}
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		switch indented := len(line) == 0 || line[0] == ' '; {
		case first >= 0 && len(line) == 0:
			first = -1 // the first paragraph ends
		case first >= 0:
			if first++; first > firstLines {
				return false
			}
		case !indented && len(before) > 0 && !bytes.HasPrefix(line, []byte("Note: ")):
			return false
		}
		before = line
	}
	return true
}
