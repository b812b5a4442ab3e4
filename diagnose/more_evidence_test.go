package diagnose_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/report"
)

// TestMoreEvidenceTurnsNoVerdict looks at each labelled run with more and more evidence, stacks and then its log: what was right of
// a failure stays right, a defect that was found is found, and none is claimed that less evidence doesn't show.
func TestMoreEvidenceTurnsNoVerdict(t *testing.T) {
	dirs, _ := filepath.Glob("../testdata/recordings/*")
	if more := corpus.Glob(t, "labelled/*__*"); len(more) > 0 {
		dirs = more
	}
	unseen, _ := filepath.Glob("../testdata/unseen/*")
	turned := map[string]bool{
		"leak_oom__notebook_cells": true, // sizes alone show models of cells, their lines say that each is another
	}
	looks := 0
	for _, dir := range append(dirs, unseen...) {
		var p plan
		data, err := os.ReadFile(filepath.Join(dir, "run.json"))
		if err != nil || json.Unmarshal(data, &p) != nil {
			continue
		}
		var before []judged
		for _, variant := range []string{"none", "python", "all", "named", "annotated"} {
			path := filepath.Join(dir, "snapshot_"+variant+".pickle.gz")
			if _, err := os.Stat(path); err != nil {
				continue
			}
			log := filepath.Join(dir, "log.txt")
			for _, names := range [][]string{{path}, {path, log}} {
				if _, err := os.Stat(names[len(names)-1]); err != nil {
					continue
				}
				now := judgedOf(analyzed(t, names...), &p)
				now.look = variant
				if len(names) > 1 {
					now.look += " with its log"
				}
				for _, less := range before {
					looks++
					if turned[filepath.Base(dir)] {
						continue
					}
					if less.right && !now.right || now.found < less.found || now.wrong > less.wrong {
						t.Errorf("%s: %+v, and with less evidence %+v", filepath.Base(dir), now, less)
					}
				}
				before = append(before, now)
			}
		}
	}
	if looks < 100 {
		t.Errorf("only %d pairs of looks", looks)
	}
}

// judged is what a look at a run says that its author knows.
type judged struct {
	look         string
	right        bool // the verdict on the failure
	found, wrong int  // defects
}

func judgedOf(doc *report.Document, p *plan) (j judged) {
	j.right = p.OOM == nil
	for _, d := range doc.Devices {
		for _, o := range d.OOMs {
			j.right = p.OOM != nil && o.Verdict == p.OOM.Verdict
		}
	}
	var fair []string
	ids := idsOf(doc)
	for _, d := range p.Defects {
		fair = append(append(fair, d.Kind), alsoFair[d.Kind]...)
		if slices.Contains(ids, d.Kind) {
			j.found++
		}
	}
	for _, id := range ids {
		if slices.Contains(defects, id) && !slices.Contains(fair, id) {
			j.wrong++
		}
	}
	return j
}
