package replay

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/replay/allocator"
)

// An independent simulator in Python, where there is one, gives the same peaks
// from an empty device on.
func TestAgreesWithAnIndependentSimulator(t *testing.T) {
	script := corpus.Path(t, "oracles/freesim.py")
	line := regexp.MustCompile(`(native|exp) peak_reserved (\d+) peak_alloc (\d+) .* end_reserved (\d+)`)
	for _, run := range []string{"growing_list__features/snapshot_none", "mlp_regression__script/snapshot_none", "vit__torch_encoder/snapshot_none"} {
		file := corpus.Path(t, "labelled/"+run+".pickle.gz")
		cmd := exec.Command("python3", script, file)
		cmd.Dir = filepath.Dir(script)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		p := load(t, file)
		for _, m := range line.FindAllStringSubmatch(string(out), -1) {
			conf := ""
			if m[1] == "exp" {
				conf = "expandable_segments:True"
			}
			set, _, err := allocator.ParseConf(conf)
			if err != nil {
				t.Fatal(err)
			}
			r := p.Run(Scenario{Settings: set})
			if got := fmt.Sprint(r.PeakReserved, r.PeakAllocated, r.FinalReserved); got != m[2]+" "+m[3]+" "+m[4] {
				t.Errorf("%s %s: %s, the simulator says %s %s %s", run, m[1], got, m[2], m[3], m[4])
			}
		}
	}
}
