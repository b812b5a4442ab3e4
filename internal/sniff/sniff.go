// Package sniff tells by a name and by first bytes what a file may be, alike for
// one run's directory and for a batch: both find the same files.
//
//	if !sniff.OtherFile(name) && sniff.IsRecording(head) {
//		fmt.Println(name, "is a memory snapshot")
//	}
package sniff

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// HeadBytes is how much of a file's beginning, unpacked, is enough to tell.
const HeadBytes = 64 << 10

// PickleMark begins a pickle of protocol 2 and later.
const PickleMark = 0x80

// otherFolders hold programs, not what they leave behind.
var otherFolders = []string{"__pycache__", "site-packages", "dist-packages", "node_modules", "venv", "lost+found"}

// OtherFolder tells by its name a folder in which nobody keeps runs.
func OtherFolder(base string) bool {
	return strings.HasPrefix(base, ".") || slices.Contains(otherFolders, base)
}

var (
	// otherName are files that people write or draw, and tables: a log or a message
	// quoted in them is nobody's evidence.
	otherName = pattern.Of(`\.(py|pyi|pyx|bash|slurm|sbatch|c|cc|cpp|cu|cuh|h|hpp|go|rs|java|js|ts|sql|proto|patch|diff` +
		`|md|rst|tex|html?|css|cfg|ini|lock|pdf|png|jpg|svg|parquet|arrow)(\.(gz|zst|zip))?$|^(license|readme|` +
		`requirements|makefile|dockerfile)`)
	// settingsName are files that tell a program what to do: they are a run's as far as they
	// are a framework's own.
	settingsName = pattern.Of(`\.(sh|toml|ya?ml)(\.(gz|zst|zip))?$`)
	// trackedNames are settings that trackers keep for a run.
	trackedNames = []string{"config.yaml", "hparams.yaml", "meta.yaml"}

	logName       = pattern.Of(`\.(log|out|err)(\.(gz|zst|zip))?$`)
	recordingName = pattern.Of(`\.(pickle|pkl)(\.(gz|zst|zip))?$`)
)

// OtherFile tells by its name a file that is none of a run's, or that whoever wrote it didn't finish.
func OtherFile(base string) bool {
	if strings.HasPrefix(base, ".") || strings.HasSuffix(base, ".tmp") {
		return true
	}
	return otherName().MatchString(strings.ToLower(base)) && !CalledRecording(base)
}

// CalledSettings tells by its name a file that is a run's only where it is a framework's.
func CalledSettings(base string) bool {
	return settingsName().MatchString(strings.ToLower(base)) && !slices.Contains(trackedNames, base)
}

// CalledRecording tells by its name that a file was to be a pickle.
func CalledRecording(name string) bool {
	return recordingName().MatchString(strings.ToLower(path.Base(name)))
}

// CalledLog tells by its name that a file was to be what a program printed.
func CalledLog(name string) bool { return logName().MatchString(strings.ToLower(path.Base(name))) }

// Other tells OtherFile of a file and OtherFolder of the folders that its path
// names, with slashes.
func Other(name string) bool {
	dir, base := path.Split(name)
	return OtherFile(base) || slices.ContainsFunc(strings.Split(dir, "/"), OtherFolder)
}

// recordingKeys are the keys of which one stands near the beginning of every
// recording.
var recordingKeys = [][]byte{[]byte("segments"), []byte("device_traces"), []byte("total_size"), []byte("segment_type"),
	[]byte("external_annotations"),
	[]byte("allocator_settings"), []byte("active_size"), []byte("allocated_size")}

// IsRecording tells a memory snapshot from other pickles and from what is none.
func IsRecording(head []byte) bool {
	return len(head) > 0 && head[0] == PickleMark && slices.ContainsFunc(recordingKeys,
		func(key []byte) bool { return bytes.Contains(head, key) })
}

// IsCutPickle tells a file that was to be a pickle and ended before it said of
// what: a recording, most likely, whose program died while it was dumping.
func IsCutPickle(name string, head []byte) bool {
	const stop = '.'
	return len(head) > 0 && len(head) < HeadBytes && head[0] == PickleMark && head[len(head)-1] != stop && CalledRecording(name)
}

// IsBinary tells data from text by its control characters. NUL bytes alone are no
// sign: a log that was cut while a program went on writing is full of them. Nor
// are backspaces, with which progress bars are drawn, and bells.
func IsBinary(head []byte) bool {
	if IsUTF16(head) {
		return false
	}
	nul, control := 0, 0
	for _, c := range head {
		switch {
		case c == 0:
			nul++
		case c < 7, 13 < c && c < 27, 27 < c && c < 32:
			control++
		}
	}
	return control*50 > len(head) || nul > 0 && nul == len(head) || isTar(head)
}

// IsUTF16 tells text of 16-bit units by the mark that it begins with.
func IsUTF16(head []byte) bool {
	return bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff})
}

// IsSafetensors recognises the length of a JSON header and the header behind it.
// The size of the whole is 0 when it isn't known.
func IsSafetensors(head []byte, size int64) bool {
	if len(head) < 10 || head[8] != '{' {
		return false
	}
	n := binary.LittleEndian.Uint64(head)
	return n >= 2 && n < 1<<30 && (size == 0 || int64(n)+8 <= size)
}

// Accessory is what explains a recording and is no evidence by itself.
type Accessory uint8

// The accessories that are JSON.
const (
	None   Accessory = iota
	Config           // a model's configuration
	Labels           // names of allocations
)

// configKeys are those of which every model's configuration has one.
var configKeys = []string{"model_type", "architectures", "hidden_size", "n_embd", "d_model"}

// AccessoryOf tells configurations and labels by their outermost keys. What
// another object follows is a log with an object in each line.
func AccessoryOf(head []byte) Accessory {
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return None
	}
	found := None
	var err error
	for keys := 0; err == nil && d.More() && keys < 1000; keys++ {
		var key json.Token
		if key, err = d.Token(); err != nil {
			break
		}
		name, _ := key.(string)
		var value json.RawMessage
		err = d.Decode(&value)
		switch {
		case name == "schema" && string(value) == `"vramscope.labels/1"`:
			found = Labels
		case found == None && slices.Contains(configKeys, name):
			found = Config
		}
	}
	if err == nil && !d.More() {
		d.Token() // the end of the object
		if next, err := d.Token(); err != io.EOF && next == json.Delim('{') {
			return None
		}
	}
	return found
}
