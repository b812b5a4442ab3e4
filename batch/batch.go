// Package batch analyses many runs: it finds them below folders, makes a
// report of each, and joins the reports into tables and one page.
//
// The steps are functions of their own, so that other programs can spread them
// over machines as they like. On this machine, Work analyses and writes:
//
//	out, err := store.Open(ctx, "out")
//	found, err := batch.Find(ctx, []string{"experiments"}, batch.FindOptions{})
//	for _, run := range found.Runs {
//		result := batch.Analyze(ctx, run, "v1", batch.Options{}) // anywhere, in any order
//		err = result.Write(ctx, out)
//	}
//	err = batch.Combine(ctx, out, "", batch.Stored(ctx, out))
package batch

import (
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/store"
)

// Run is what belongs together and gets one report: the files of a directory,
// of a set of ranks, or a single recording among unrelated ones.
type Run struct {
	// Path is what the tables and the page call the run: where it lies, as the
	// user named it, with slashes; with redaction, its pseudonym. Unique.
	Path string `json:"path"`
	// Name is the run's folder below runs/, made of Path alone.
	Name string `json:"name"`
	// Experiment is what runs of the same kind have in common: Path without
	// numbers, dates and the like.
	Experiment string `json:"experiment"`

	Files []string `json:"files"` // to read, in order
	// Sure is false when nothing but text was found, which may turn out to say
	// nothing; it is no failure then.
	Sure bool `json:"sure"`
	// Place is where the run lies, the same as Path without redaction. What
	// shard a run belongs to depends on it.
	Place string `json:"place"`
	Bytes int64  `json:"bytes"` // of the files together
	// Versions are of the files, in their order, where a store tells them: what
	// is unchanged need not be read to know it. Empty for folders.
	Versions []string `json:"versions"`
}

// Options are what a user says that changes reports.
type Options struct {
	Tool     string        // name and version of the program, as the reports say it
	Title    string        // to stand above every report, and over all of them
	Notes    []report.Note // as well
	Device   *int          // the only device to look at; nil: all
	GPU      string        // name or size of the GPU, where a recording doesn't tell
	Capacity int64         // bytes of that GPU, 0 when not given
	Config   string        // file with the model's configuration; "": one among the run's files
	Model    string        // checkpoint whose header names the tensors; "": none
	Labels   []string      // files that say what memory holds, beside those that lie beside recordings
	Partial  bool          // use what damaged files still hold
	Redact   bool
	// RedactTitle hides the title, too.
	RedactTitle bool `json:",omitempty"`
	// Standalone puts into every report what it needs; else they share one script.
	Standalone bool
	Key        string `json:"-"` // makes pseudonyms one's own
	// MaxMemory is how many bytes the analysis of one run may use; 0: no limit.
	// It changes no report.
	MaxMemory int64 `json:"-"`
	// Stores are the connections to stores; nil: each run makes its own.
	Stores *store.Pool `json:"-"`
}
