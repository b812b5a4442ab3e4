package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report/view"
)

// evident tells by its name a file that analyze reads.
func evident(name string) bool {
	return sniff.CalledRecording(name) || sniff.CalledLog(name) || name == "config.json"
}

// mostHere bounds how many files of a folder, and of the folders in it, are looked at.
const mostHere = 2000

// listed adds what analyze reads of a folder, below a name, to names, and of folders in it, as run makes them. What can't be
// listed isn't there.
func listed(names []string, folder, below string, left *int, deep bool) []string {
	dir, err := os.Open(folder)
	if err != nil {
		return names
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(max(*left, 1))
	*left -= len(entries)
	for _, e := range entries {
		switch name := e.Name(); {
		case e.Type().IsRegular() && evident(name):
			names = append(names, below+name)
		case e.IsDir() && deep && *left > 0 && name[0] != '.':
			names = listed(names, filepath.Join(folder, name), name+"/", left, false)
		}
	}
	return names
}

// Here says with which commands the files of a folder are read: one run is analysed, two recordings are compared, many make
// a batch. Where there is no recording it says nothing.
func Here(folder string) string {
	left := mostHere
	names := listed(nil, folder, "", &left, true)
	slices.Sort(names)
	recordings := 0
	for _, name := range names {
		if sniff.CalledRecording(name) {
			recordings++
		}
	}
	if recordings == 0 {
		return ""
	}
	runs := Plan(names)
	shown := func(words ...string) string {
		line := "vramscope"
		for _, w := range words {
			line += " " + view.ShellWord(w)
		}
		return line
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s here.\n\n", units.Plural(recordings, "recording"))
	const most = 3
	for _, r := range runs[:min(len(runs), most)] {
		inputs := r.Inputs
		if len(inputs) > 6 {
			inputs = []string{"."}
		}
		fmt.Fprintf(&b, "  %s\n", shown(append([]string{"analyze"}, inputs...)...))
	}
	if len(runs) > most {
		fmt.Fprintf(&b, "  … and so on, %d runs in all\n", len(runs))
	}
	switch {
	case len(runs) == 1:
		fmt.Fprintf(&b, "\nsays what filled the GPU; with -o report.html as a page.\n")
	case len(runs) == 2:
		fmt.Fprintf(&b, "\nsays what filled the GPU. What has changed from one to the other says\n\n  %s\n",
			shown("diff", runs[0].Inputs[0], runs[1].Inputs[0]))
	default:
		fmt.Fprintf(&b, "\nsays what filled the GPU. A report of each and one page over all makes\n\n  %s\n",
			shown("batch", ".", "-o", "reports"))
	}
	b.WriteString("\nvramscope help prints all commands.\n")
	return b.String()
}
