package batch

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	arrow "github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// TestTrackers finds each run of trackers' folders once, with what its tracker says
// of how it was set as columns of runs.
func TestTrackers(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../evidence/tracker/testdata/made")); err != nil {
		t.Fatal(err)
	}
	if o := (job{roots: []string{root}, out: out}).must(t); o.done != 5 {
		t.Errorf("%+v", o)
	}
	const all = "batch 8, sequence 1024, 32768 tokens, gpt2, bf16-mixed, adamw_torch, 2 GPUs"
	want := []string{
		": , batch , sequence ,  tokens, , , ,  GPUs", // gpus.wandb, which lies beside
		"mlruns/0/0123456789abcdef0123456789abcdef: MLflow, " + all,
		"tensorboard/version_0: TensorBoard, " + all,
		"trainer: Trainer, batch 8, sequence ,  tokens, , , ,  GPUs",
		"work: W&B, " + all,
	}
	if got := toldRuns(t, out+"/runs.parquet", root); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// toldRuns are the rows of runs, by what trackers say of them.
func toldRuns(t *testing.T, name, root string) (rows []string) {
	t.Helper()
	f, err := file.OpenParquetFile(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, arrow.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := r.ReadTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	records := array.NewTableReader(table, table.NumRows())
	defer records.Release()
	for records.Next() {
		record := records.Record()
		for row := range int(record.NumRows()) {
			cell := func(name string) string {
				column := record.Column(record.Schema().FieldIndices(name)[0])
				if column.IsNull(row) {
					return ""
				}
				return column.ValueStr(row)
			}
			rows = append(rows, strings.TrimPrefix(strings.TrimPrefix(cell("run"), root), "/")+": "+cell("tracker")+", batch "+cell("batch_size")+", sequence "+
				cell("sequence_length")+", "+cell("tokens_per_step")+" tokens, "+cell("model")+", "+cell("precision")+", "+
				cell("optimizer")+", "+cell("gpus")+" GPUs")
		}
	}
	slices.Sort(rows)
	return rows
}
