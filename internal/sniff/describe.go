package sniff

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	"github.com/vramscope/vramscope/internal/pattern"
)

// form is what a file may be that says nothing of a run's memory.
type form struct {
	begins  func() *regexp.Regexp
	what    string
	instead string // what to give in its place, "" when nothing is known
}

const (
	givePlain = "Give the text itself: the log, or what the program printed."
	giveQuery = "Give its readings: nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total --format=csv -l 1"
	// Unpack is what to do with archives of several files.
	Unpack  = "Unpack it, and give the folder or the files."
	giveLog = "Known are memory snapshots, logs with steps or with the failure, nvidia-smi's output and profiler traces; " +
		"`vramscope record` prints how to make a snapshot."
)

// forms are told in this order.
var forms = []form{
	{pattern.Of(`^version https://git-lfs\.github\.com/spec/`), "a Git LFS pointer, not the file itself",
		"Fetch the file: git lfs pull, in the repository that this is from."},
	{pattern.Of(`^SQLite format 3\x00`), "an SQLite database, of another program",
		"Give what that program exports: nsys export --type json, a folder of mlruns, or the log."},
	{pattern.Of(`(?s)^(7z|Rar!|.7zXZ|BZh[1-9]|PK\x05\x06)`), "an archive that isn't unpacked here", Unpack},
	{pattern.Of(`(?s)^(.PNG\r\n|.{6}(JFIF|Exif)|GIF8|RIFF.{4}WEBP)`), "a picture", givePlain},
	{pattern.Of(`^%PDF-`), "a PDF", givePlain},
	{pattern.Of(`(?m)^GPU [0-9]+: .*\(UUID: `), "nvidia-smi -L's list of GPUs, without their memory", giveQuery},
	{pattern.Of(`^\s*(\x1b\[4m)?GPU0\s+(\S+\s+)*CPU Affinity`), "nvidia-smi topo's table of connections, without memory",
		giveQuery},
	{pattern.Of(`^(NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found)`),
		"an error of nvidia-smi, which saw no GPU", giveQuery},
	{pattern.Of(`(?m)^(\x1b\[[0-9;]*m)*\[[0-9]+\].*\|.*\|.*/.*MB`), "gpustat's output, which isn't read", giveQuery},
	{pattern.Of(`NVITOP [0-9]`), "nvitop's screen, which isn't read", giveQuery},
	{pattern.Of(`DCGM_FI_|^#Entity `), "DCGM's output, which isn't read", giveQuery},
	{pattern.Of(`ROCm System Management Interface|AMD-SMI [0-9]`), "output of AMD's tools, which isn't read", giveLog},
	{pattern.Of(`^\s*\{\s*"(best_(metric|model_checkpoint|global_step)|epoch)"[^\x00]*"log_history"`), "a Trainer's state",
		giveLog},
	{pattern.Of(`Traceback \(most recent call last\):|(?m)^\s*File "[^"\n]+", line [0-9]+, in `),
		"text with a traceback, but no message about memory that is known",
		giveLog},
	{pattern.Of(`^([^,\n{\[]+,)+[^,\n]+\r?\n([^,\n]*,)+[^,\n]*(\r?\n|$)`),
		"a table without a column of memory or steps that is known", giveLog},
}

// Describe says in words what a file is of which nothing can be made, by its
// beginning, and what to give in its place.
func Describe(head []byte) (what, instead string) {
	for _, f := range forms {
		if f.begins().Match(head) {
			return f.what, f.instead
		}
	}
	switch {
	case isTar(head):
		return "a tar archive" + listed(tarNames(head)), Unpack
	case len(head) > 0 && head[0] == PickleMark:
		return "a pickle of something else", giveLog
	case IsBinary(head):
		return "data, neither a pickle nor text", giveLog
	case IsReport(head):
		return "a web page, or what vramscope wrote itself", giveLog
	case IsJSON(head):
		return "JSON of no known kind", giveLog
	}
	return "text without a line of a known form", giveLog
}

// IsJSON tells an object or a list by its beginning.
func IsJSON(head []byte) bool {
	d := json.NewDecoder(bytes.NewReader(head))
	t, err := d.Token()
	_, delim := t.(json.Delim)
	for i := 0; i < 3 && err == nil && d.More(); i++ { // "[2024-05-01 …" is no list
		_, err = d.Token()
	}
	var wrong *json.SyntaxError
	return delim && !errors.As(err, &wrong)
}
