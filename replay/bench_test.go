package replay

import (
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/replay/allocator"
)

// BenchmarkRun reports requests, which are allocations, for each second.
func BenchmarkRun(b *testing.B) {
	for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:128"} {
		for _, run := range []string{"decode__hf_dynamic_cache/snapshot_all", "gpt2_fp32_adamw__hf_loop/snapshot_late"} {
			p := load(b, filepath.Join(shipped, run+".pickle.gz"))
			set, _, err := allocator.ParseConf(conf)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(conf+"/"+filepath.Dir(run), func(b *testing.B) {
				requests := 0
				for b.Loop() {
					p.Run(Scenario{Settings: set})
					requests += p.requests()
				}
				b.ReportMetric(float64(requests)/b.Elapsed().Seconds()/1e6, "Mreq/s")
			})
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	p := load(b, filepath.Join(shipped, "decode__hf_dynamic_cache/snapshot_all.pickle.gz"))
	requests := 0
	for b.Loop() {
		p.verify()
		requests += p.requests()
	}
	b.ReportMetric(float64(requests)/b.Elapsed().Seconds()/1e6, "Mreq/s")
}

// requests is how many allocations a program makes.
func (p *Program) requests() int {
	n := 0
	for i := range p.ops {
		if p.ops[i].kind == opAlloc {
			n++
		}
	}
	return n
}
