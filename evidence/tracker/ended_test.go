package tracker

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

// TestMLflowEnds reads how MLflow says that a run ended.
func TestMLflowEnds(t *testing.T) {
	const name = "mlruns/0/0123456789abcdef0123456789abcdef/meta.yaml"
	for status, want := range map[string]evidence.How{"3": evidence.EndedWell, "4": evidence.Failed, "5": evidence.Stopped, "1": "",
		"FAILED": evidence.Failed, "'FINISHED'": evidence.EndedWell} {
		text := "run_id: 0123456789abcdef0123456789abcdef\nstatus: " + status + "\n"
		form := Recognise(name, []byte(text))
		if form == nil || form.Kind != "mlflow_run" {
			t.Fatalf("%s: taken for %+v", status, form)
		}
		if found, err := form.Read(strings.NewReader(text), name, nil); err != nil || found.Ending.How != want {
			t.Errorf("%s: %+v, %v, want %q", status, found.Ending, err, want)
		}
	}
	if form := Recognise("mlruns/0/meta.yaml", []byte("experiment_id: '0'\n")); form != nil {
		t.Errorf("an experiment's is taken for %s", form.Kind)
	}
}
