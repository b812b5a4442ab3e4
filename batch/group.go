package batch

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/store"
)

// group puts files together into runs. The files of a directory are one run
// when the names of their recordings differ in nothing but ranks, steps and
// words such as "oom" or "final"; unrelated recordings side by side are a run
// each, with the log and the labels that share their names. Folders that are
// parts of a run (logs, snapshots, rank3, iteration_10, checkpoint-500) count as
// the folder above them.
//
// Silent are logs that say nothing, the first of each folder that is no run and no
// model's: what was to be a run may have crashed.
func group(files []candidate) (runs []Run, silent []string) {
	for home, files := range homesOf(files) {
		slices.SortFunc(files, func(a, b candidate) int { return cmp.Compare(a.Path, b.Path) })
		isSilent := func(f candidate) bool { return f.Kind == kindSilent }
		first := slices.IndexFunc(files, isSilent)
		telling := slices.DeleteFunc(slices.Clone(files), isSilent)
		runs = append(runs, runsIn(home, telling)...)
		if len(telling) == 0 {
			silent = append(silent, files[first].Path)
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Place, b.Place) })
	slices.Sort(silent)
	return runs, silent
}

// homesOf are the files that matter by the folders that they belong to.
func homesOf(files []candidate) map[string][]candidate {
	tracked := trackedRuns(files)
	homes := map[string][]candidate{}
	for _, f := range files {
		if f.Kind == kindOther || f.Kind == kindPickle {
			continue
		}
		home := homeOf(&f)
		if run, all := trackedRun(&f); run != "" {
			if home = run; len(tracked[all]) == 1 {
				home = homeOf(&candidate{Path: all, Root: f.Root})
			}
		}
		homes[home] = append(homes[home], f)
	}
	return homes
}

// trackedFolder is a folder that Weights & Biases keeps for a run, below wandb/.
var trackedFolder = pattern.Of(`^(offline-)?run-[0-9]{8}_[0-9]{6}-`)

// trackedRun is the folder of wandb's in which a file lies, "" for none, and that
// of all of them, "" when that one was given: runs don't reach above it.
func trackedRun(f *candidate) (run, all string) {
	for dir := above(f.Path); ; dir = above(dir) {
		parent := above(dir)
		switch {
		case !trackedFolder().MatchString(path.Base(dir)):
		case dir == f.Root || parent == f.Root || path.Base(parent) != "wandb": // copied from there
			return dir, ""
		default:
			return dir, parent
		}
		if dir == f.Root || parent == dir {
			return "", ""
		}
	}
}

// trackedRuns are the runs of each of wandb's folders. A single one is a copy of
// the output of the run that made the folder; where there are more, as when they
// were all started from one place, each is a run.
func trackedRuns(files []candidate) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, f := range files {
		if run, all := trackedRun(&f); all != "" && (f.Kind == kindText || f.Kind == kindTracked || f.Kind == kindRecording) {
			if out[all] == nil {
				out[all] = map[string]bool{}
			}
			out[all][run] = true
		}
	}
	return out
}

// partFolder are folders that hold a part of a run.
var partFolder = pattern.Of(`(?i)^(logs?|configs?|conf|snapshots?|mem|memory|mem(ory)?[-_]?snapshots?|cuda[-_]?memory|` +
	`profil(e|es|er|ing)|traces?|dumps?|checkpoint[-_]([0-9]+|last|best)|wandb|((local|global)[-_]?)?(rank|node|gpu|device|` +
	`worker|proc|process|host|replica)[-_]?[0-9]+|(global[-_]?)?(iter|iteration|step|epoch)[-_]?[0-9]+([-_]exit)?)$`)

var (
	bareNumber    = pattern.Of(`^[0-9]+$`)
	attemptFolder = pattern.Of(`^attempt_[0-9]+$`)
)

// homeOf is the folder that a file belongs to.
func homeOf(f *candidate) string {
	dir := above(f.Path)
	if run := mlflowRun(f); run != "" {
		return run
	}
	if dir != f.Root && trainersLogs().MatchString(path.Base(dir)) && path.Base(above(dir)) == "runs" && above(dir) != f.Root {
		dir = above(above(dir)) // output/runs/Nov25_12-00-00_host, beside output/trainer_state.json
	}
	if attempt := above(dir); dir != f.Root && bareNumber().MatchString(path.Base(dir)) &&
		attemptFolder().MatchString(path.Base(attempt)) {
		return attempt // torchrun --log-dir: none_x7/attempt_0/3/stderr.log
	}
	for dir != f.Root && partFolder().MatchString(path.Base(dir)) && above(dir) != dir {
		dir = above(dir)
	}
	return dir
}

// trainersLogs is a folder for TensorBoard as Transformers' Trainer calls it.
var trainersLogs = pattern.Of(`^[A-Z][a-z]{2}[0-9]{2}_[0-9]{2}-[0-9]{2}-[0-9]{2}_`)

// mlflowRun is the folder that MLflow keeps for a run, whose name is 32 hexadecimal
// digits: its metrics, parameters and tags lie in folders below; "" for none.
func mlflowRun(f *candidate) string {
	for dir := above(f.Path); dir != f.Root && above(dir) != dir; dir = above(dir) {
		if name := path.Base(dir); len(name) == 32 && strings.Trim(name, "0123456789abcdef") == "" {
			return dir
		}
	}
	return ""
}

// above is the folder of a path or of a store's name, whose two slashes path.Dir
// would make one.
func above(name string) string {
	if store.IsURL(name) {
		dir, _ := store.Split(name)
		return dir
	}
	return path.Dir(name)
}

// runsIn makes the runs of one folder.
func runsIn(home string, files []candidate) []Run {
	recordings := families(files, kindRecording)
	switch {
	case slices.ContainsFunc(files, func(f candidate) bool {
		return f.Kind == kindTracked && path.Base(f.Path) == filename.RunRecord
	}):
		// `vramscope run` names its recordings by their process; a single one may have been given another name.
		of := len(recordings)
		maps.DeleteFunc(recordings, func(_ string, m []candidate) bool { return of == 1 || filename.Parse(m[0].Path).PID != 0 })
		runs, rest := unrelated(recordings, files)
		return append(runs, runOf(home, rest, true))
	case len(recordings) == 0:
		return textRuns(home, files)
	case len(recordings) == 1:
		return []Run{runOf(home, files, true)}
	}
	runs, others := unrelated(recordings, files)
	if len(others) == 0 {
		return runs
	}
	for _, r := range textRuns(home, others) {
		if r.Place == home { // is the folder of all of them
			r.Place = r.Files[0]
		}
		runs = append(runs, r)
	}
	return runs
}

// maxTogether is how many recordings one program's text may belong to: it is read with each of them.
const maxTogether = 16

// unrelated are the runs of unrelated recordings. What else is there belongs to the one whose
// name it begins with, if there is such; text without a name belongs to each of one program's
// recordings (snapshot_before, snapshot_after); others are the rest.
func unrelated(recordings map[string][]candidate, files []candidate) (runs []Run, others []candidate) {
	placed := map[string]bool{}
	beginnings := map[string]bool{}
	for _, members := range recordings {
		for _, f := range members {
			placed[f.Path] = true
			beginnings[wordSplit().Split(path.Base(f.Path), 2)[0]] = true
		}
	}
	together := len(recordings) <= maxTogether && len(beginnings) == 1 &&
		plainWords[strings.ToLower(slices.Collect(maps.Keys(beginnings))[0])]
	for _, f := range files {
		best := closest(familyOf(f.Path), recordings)
		switch _, ok := recordings[best]; {
		case f.Kind == kindRecording && !placed[f.Path]:
			others = append(others, f)
		case f.Kind == kindRecording:
		case ok:
			recordings[best] = append(recordings[best], f)
		case f.Kind == kindText && together && slices.Contains([]string{"", "run"}, familyOf(f.Path)):
			for family := range recordings {
				recordings[family] = append(recordings[family], f)
			}
		default:
			others = append(others, f)
		}
	}
	for _, members := range recordings {
		runs = append(runs, runOf(members[0].Path, members, true)) // a recording comes first
	}
	return runs, others
}

// closest is the longest name that a family begins with, "" for none.
func closest(family string, names map[string][]candidate) string {
	best := ""
	for name := range names {
		if len(name) > len(best) && (family == name || strings.HasPrefix(family, name+"-")) {
			best = name
		}
	}
	return best
}

// textRuns makes runs of logs alone; a model's configuration is none. Logs with
// names of their own are several runs'.
func textRuns(home string, files []candidate) []Run {
	groups := families(files, kindText)
	named := len(groups)
	if groups[""] != nil {
		named--
	}
	tracked := slices.DeleteFunc(slices.Clone(files), func(f candidate) bool { return f.Kind != kindTracked })
	var runs []Run
	switch {
	case len(groups) == 0 && len(tracked) == 0:
		return nil
	case named <= 1:
		return []Run{runOf(home, files, false)}
	case len(tracked) > 0:
		runs = append(runs, runOf(home, tracked, false))
	}
	for _, members := range groups {
		runs = append(runs, runOf(members[0].Path, members, false))
	}
	return runs
}

// families puts the files of a kind together by what their names have in common.
func families(files []candidate, kind fileKind) map[string][]candidate {
	groups := map[string][]candidate{}
	for _, f := range files {
		if f.Kind == kind {
			key := familyOf(f.Path)
			groups[key] = append(groups[key], f)
		}
	}
	if kind == kindRecording {
		groups = joinRanks(groups)
	}
	return groups
}

// maxBareRanks is how many recordings may be told apart by a bare number and
// still be the ranks of one job.
const maxBareRanks = 64

// joinRanks makes one family of recordings named 0, 1, 2 and so on, whose names
// say nothing else.
func joinRanks(groups map[string][]candidate) map[string][]candidate {
	var members []candidate
	for i := range len(groups) {
		g, ok := groups[strconv.Itoa(i)]
		if !ok || len(g) != 1 || len(groups) > maxBareRanks {
			return groups
		}
		members = append(members, g[0])
	}
	if len(members) < 2 {
		return groups
	}
	return map[string][]candidate{"": members}
}

var (
	// partWords tell the parts of one run apart: ranks and moments.
	partWords = pattern.Of(`^((rank|gpu|cuda|device|node|worker|proc|process|host|replica|step|iter|iteration|epoch|dp|tp|pp|` +
		`ep|cp|r))-?([0-9]+)$`)
	// plainWords say nothing of which run it is.
	plainWords = map[string]bool{"snapshot": true, "snapshots": true, "memory": true, "mem": true, "cuda": true, "gpu": true,
		"torch": true, "pytorch": true, "dump": true,
		"oom": true, "exit": true, "final": true, "last": true, "latest": true, "end": true, "peak": true, "alloc": true,
		"history": true, "log": true, "logs": true, "train": true, "training": true, "out": true, "err": true, "output": true,
		"stdout": true, "stderr": true,
		"result": true, "results": true, "slurm": true,
		"console": true, "smi": true, "nvidia": true, "nvsmi": true, "usage": true,
		"monitor": true, "stats": true, "apps": true, "dmon": true, "pmon": true, "trace": true, "profile": true,
		"profiler": true, "config": true, "labels": true, "local": true, "global": true, "eval": true, "test": true, "val": true,
		"valid": true, "debug": true, "error": true, "errors": true,
		"info": true, "metrics": true, "metric": true, "util": true, "utilization": true, "main": true}
	wordSplit = pattern.Of(`[-_. ]+`)
)

// familyOf is what a file's name says beyond ranks, steps and what it holds: the
// same for the files of one run.
func familyOf(file string) string {
	words := wordSplit().Split(strings.ToLower(filename.WithoutEndings(path.Base(file))), -1)
	var kept []string
	for i := 0; i < len(words); i++ {
		pair := ""
		if i+1 < len(words) {
			pair = words[i] + "-" + words[i+1]
		}
		switch {
		case partWords().MatchString(pair):
			i++
		case words[i] == "", plainWords[words[i]], partWords().MatchString(words[i]):
		default:
			kept = append(kept, words[i])
		}
	}
	return strings.Join(kept, "-")
}

func runOf(place string, files []candidate, sure bool) Run {
	r := Run{Place: place, Sure: sure}
	for _, f := range files {
		r.Files = append(r.Files, f.Path)
		if f.Version != "" {
			r.Versions = append(r.Versions, f.Version)
		}
		r.Bytes += f.Bytes
	}
	return r
}
