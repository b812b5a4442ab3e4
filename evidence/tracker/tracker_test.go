package tracker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
)

// read recognises a file and reads it.
func read(t *testing.T, name string, data []byte) (*Form, *Found, error) {
	t.Helper()
	form := Recognise(name, data[:min(len(data), 64<<10)])
	if form == nil {
		return nil, nil, nil
	}
	found, err := form.Read(bytes.NewReader(data), name, nil)
	return form, found, err
}

// TestMade reads what trackers' own packages wrote (testdata/make.py): ten steps, loss
// 4.0 - 0.1 x step, 0.25 s each, 2 GiB + 1 MiB x step.
func TestMade(t *testing.T) {
	const id = "mlruns/0/0123456789abcdef0123456789abcdef/"
	const gib, mib = 1 << 30, 1 << 20
	for file, test := range map[string]struct {
		kind    string
		steps   int
		memory  int64   // at most
		seconds float64 // of a step
		loss    float64 // at the end
	}{
		"tensorboard/version_0/events.out.tfevents.1735689600.host":          {"tensorboard_events", 10, 2*gib + 10*mib, 0.25, 3},
		"tensorboard/version_0/metrics.csv":                                  {"metrics_csv", 10, 2*gib + 10*mib, 0, 3},
		"work/wandb/offline-run-20250101_000000-small001/run-small001.wandb": {"wandb_run", 10, 2*gib + 10*mib, 0.25, 3},
		"trainer/trainer_state.json":                                         {"trainer_state", 10, 0, 0.25, 3},
		"trainer/all_results.json":                                           {"trainer_results", 0, 0, 0.25, 3.45},
		id + "metrics/train/loss":                                            {"mlflow_metric", 10, 0, 0, 3},
		id + "metrics/step_time":                                             {"mlflow_metric", 10, 0, 0.25, 0},
		id + "metrics/gpu_memory_allocated_bytes":                            {"mlflow_metric", 10, 2*gib + 10*mib, 0, 0},
	} {
		data, err := os.ReadFile(filepath.Join("testdata/made", file))
		if err != nil {
			t.Fatal(err)
		}
		form, found, err := read(t, file, data)
		if err != nil || form == nil || form.Kind != test.kind || found.Steps == nil && test.steps > 0 {
			t.Errorf("%s: %+v, %+v, %v", file, form, found, err)
			continue
		}
		s, final := evidence.Steps{}, 0.0
		if found.Steps != nil {
			s = *found.Steps
		}
		if found.Parameters != nil {
			final = evidence.Or(found.Parameters.FinalLoss, 0)
		}
		memory := evidence.Or(s.MaxMemoryBytes, 0)
		if s.Count != test.steps || memory-test.memory > mib || test.memory-memory > mib ||
			math.Abs(evidence.Or(s.MedianStepSeconds, 0)-test.seconds) > 1e-9 || math.Abs(final-test.loss) > 1e-6 {
			t.Errorf("%s: %d steps, %d bytes, %g s, loss %g", file, s.Count, memory, evidence.Or(s.MedianStepSeconds, 0), final)
		}
	}
}

// TestMadeSettings: the parameters of the same runs, and the readings of their GPUs.
func TestMadeSettings(t *testing.T) {
	const id = "mlruns/0/0123456789abcdef0123456789abcdef/params/"
	want := `{"source":0,"tracker":"","batch_size":8,"sequence_length":1024,"accumulation":2,"gpus":2,"tokens_per_step":32768,` +
		`"model":"gpt2","precision":"bf16-mixed","optimizer":"adamw_torch","gpu":null,"command":null,"final_loss":null}`
	for tracker, files := range map[string][]string{
		"W&B":       {"work/wandb/offline-run-20250101_000000-small001/run-small001.wandb"},
		"Lightning": {"tensorboard/version_0/hparams.yaml"},
		"MLflow": {id + "per_device_train_batch_size", id + "max_seq_length", id + "gradient_accumulation_steps", id + "world_size",
			id + "model_name_or_path", id + "bf16", id + "optim"},
	} {
		ev := evidence.New()
		for _, file := range files {
			data, err := os.ReadFile(filepath.Join("testdata/made", file))
			if err != nil {
				t.Fatal(err)
			}
			if _, found, err := read(t, file, data); err != nil || found.Parameters == nil {
				t.Fatalf("%s: %+v, %v", file, found, err)
			} else {
				ev.Parameters = append(ev.Parameters, *found.Parameters)
			}
		}
		p := ev.Settings()
		if p.Tracker != tracker {
			t.Errorf("%s: called %s", tracker, p.Tracker)
		}
		p.Tracker, p.FinalLoss = "", nil
		if text, _ := json.Marshal(p); string(text) != want {
			t.Errorf("%s: %s", tracker, text)
		}
	}
	for file, most := range map[string]int64{"gpus.wandb": 49 << 30,
		"mlruns/0/0123456789abcdef0123456789abcdef/metrics/system/gpu_0_memory_usage_megabytes": 2157969408} {
		data, _ := os.ReadFile(filepath.Join("testdata/made", file))
		if _, found, err := read(t, file, data); err != nil || len(found.GPUs) != 1 || found.GPUs[0].Samples != 10 ||
			*found.GPUs[0].PeakUsedBytes != most || found.GPUs[0].FirstTime == nil {
			t.Errorf("%s: %+v, %v", file, found, err)
		}
	}
}

// TestDocuments: what W&B keeps of a run that was uploaded.
func TestDocuments(t *testing.T) {
	_, found, err := read(t, "files/config.yaml", []byte("_wandb:\n    value:\n        cli_version: 0.20.0\nbatch_size:\n    desc: null\n    value: 16\n"+
		"model:\n    value:\n        name: x\n        seq_len: 4096\ntrain:\n    value:\n        optimizer: lion\n        dtype: torch.bfloat16\n"))
	if err != nil || *found.Parameters.BatchSize != 16 || *found.Parameters.SequenceLength != 4096 || *found.Parameters.Optimizer != "lion" ||
		*found.Parameters.Precision != "bfloat16" || found.Parameters.Model != nil {
		t.Errorf("config.yaml: %+v, %v", found.Parameters, err)
	}
	_, found, err = read(t, "files/wandb-metadata.json", []byte(`{"program": "train.py", "args": ["--batch-size", "4", "--seq_len=512"], "gpu": "NVIDIA A100", `+
		`"gpu_count": 2, "gpu_nvidia": [{"name": "NVIDIA A100", "memoryTotal": "85899345920"}, {"name": "NVIDIA A100", "memory_total": 85899345920}]}`))
	if p := found.Parameters; err != nil || *p.Command != "train.py --batch-size 4 --seq_len=512" || *p.BatchSize != 4 || *p.SequenceLength != 512 ||
		*p.GPUs != 2 || *p.GPU != "NVIDIA A100" || len(found.GPUs) != 2 || *found.GPUs[1].TotalBytes != 80<<30 {
		t.Errorf("wandb-metadata.json: %+v, %v", found, err)
	}
	_, found, err = read(t, "wandb-summary.json", []byte(`{"_step": 99, "train/loss": 1.5, "gpu/max_memory_reserved_gb": 30.5, "_wandb": {"runtime": 7}}`))
	if err != nil || *found.Steps.Last != 99 || *found.Steps.MaxReservedBytes != 61<<29 || !found.Steps.OnlyReserved {
		t.Errorf("wandb-summary.json: %+v, %v", found, err)
	}
}

// TestOthers: what only looks like a tracker's file is nobody's.
func TestOthers(t *testing.T) {
	for name, text := range map[string]string{"config.yaml": "batch_size: 8\n", "notes/params/batch_size": "8", "x.json": `{"loss": 1}`, "a.csv": "name,value\na,1\n",
		"smi.csv": "step, memory.used [MiB]\n1, 100 MiB\n", "metrics.csv": "step,accuracy\n1,0.5\n", "b.csv": "step,train_loss\nx,y\n",
		"data": "\x18\x00\x00\x00\x00\x00\x00\x00abcd\x09rest of something", "train.log": "step 1 loss 2.5\n"} {
		if form := Recognise(name, []byte(text)); form != nil {
			t.Errorf("%s is %s", name, form.Kind)
		}
	}
}

// TestMeanings: which names say what.
func TestMeanings(t *testing.T) {
	for name, want := range map[string]figures.What{"perf/max_memory_allocated_gb": figures.Allocated, "memory/max_reserved(GiB)": figures.Reserved,
		"perf/max_memory_reserved_gb": figures.Reserved, "perf/cpu_memory_used_gb": figures.OfHost, "gpu_mem_mb": figures.Used, "gpu_0_memory_total_MB": figures.OfDevice,
		"vram_limit_gb": figures.OfDevice, "gpu_free_memory": figures.Free, "system/max_memory_of_device_gb": figures.OfDevice, "host_ram_used_mem_gb": figures.OfHost,
		"torch/total_memory_allocated_gb": figures.Allocated, "memory/max_active(GiB)": figures.Active,
		"gpu/max_allocated_gb": figures.Allocated, "memory/reserved_MB": figures.Reserved} {
		if m, got := meaningOf(name); got.What != want || m != memory {
			t.Errorf("%s: %d, want %d", name, got.What, want)
		}
	}
	for name, want := range map[string]meaning{"train/loss": loss, "loss": loss, "train_loss": loss, "eval/loss": nothing, "val_loss": nothing,
		"train_steps_per_second": perSecond, "eval_steps_per_second": nothing,
		"perf/step_time": seconds, "timing_s/step": seconds, "memory_percent": nothing, "learning_rate": nothing, "num_alloc_retries": nothing, "gpu/allocations": nothing, "system.memory": nothing, "total_params": nothing} {
		if got, _ := meaningOf(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int64{"perf/max_memory_allocated_gb": 2 << 30, "memory/max_active(GiB)": 2 << 30, "gpu_mem_mb": 2 << 20,
		"peak_memory_alloc": 2 << 30, "gpu_mem": -1} {
		if got := bytesOf(name, figures.NameOf([]byte(strings.ToLower(name))), 2); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestLong: a long run is thinned out, and counted whole.
func TestLong(t *testing.T) {
	var b strings.Builder
	b.WriteString("step,train_loss,step_time\n")
	for i := range 100_000 {
		b.WriteString(strings.Join([]string{itoa(i), "2.5", "0.5"}, ",") + "\n")
	}
	_, found, err := read(t, "metrics.csv", []byte(b.String()))
	if s := found.Steps; err != nil || s.Count != 100_000 || len(s.Curve) >= 2*points || *s.Last != 99_999 || *s.MedianStepSeconds != 0.5 {
		t.Errorf("%d steps, %d kept, %v", s.Count, len(s.Curve), err)
	}
}

func itoa(i int) string { text, _ := json.Marshal(i); return string(text) }

// TestCut: files that end anywhere, or claim lengths that they don't have, end with an
// error or with what came before.
func TestCut(t *testing.T) {
	_ = filepath.WalkDir("testdata/made", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, _ := os.ReadFile(file)
		form := Recognise(file, data)
		if form == nil {
			t.Errorf("%s is of no form", file)
			return nil
		}
		for cut := range data {
			if _, err := form.Read(bytes.NewReader(data[:cut]), file, nil); err != nil && form.Kind != "trainer_state" && form.Kind != "trainer_results" &&
				form.Kind != "wandb_run" {
				t.Errorf("%s cut at %d: %v", file, cut, err)
			}
		}
		return nil
	})
	huge := make([]byte, 64)
	binary.LittleEndian.PutUint64(huge, 1<<62)
	if err := readEvents(newRun(Forms[0], ""), bytes.NewReader(huge)); err == nil {
		t.Error("a record of 4 EiB")
	}
}

func FuzzRead(f *testing.F) {
	_ = filepath.WalkDir("testdata/made", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, _ := os.ReadFile(file)
			for i, form := range Forms {
				if form.is(file, data) {
					f.Add(i, data)
				}
			}
		}
		return nil
	})
	f.Fuzz(func(t *testing.T, form int, data []byte) {
		if form < 0 || form >= len(Forms) {
			return
		}
		found, _ := Forms[form].Read(bytes.NewReader(data), "mlruns/0/0123456789abcdef0123456789abcdef/metrics/loss", io.Discard)
		if s := found.Steps; s != nil && (len(s.Curve) >= 2*points || s.Count < len(s.Curve)) {
			t.Errorf("%d steps, %d kept", s.Count, len(s.Curve))
		}
	})
}

// TestWritten: settings that stand as text among TensorBoard's figures, the trainer's and a model's own.
func TestWritten(t *testing.T) {
	field := func(number int, value []byte) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number<<3|2)), uint64(len(value))), value...)
	}
	record := func(event []byte) []byte {
		return append(append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(event))), 0, 0, 0, 0), event...), 0, 0, 0, 0)
	}
	text := func(tag, said string) []byte {
		return record(field(5, field(1, append(field(1, []byte(tag)), field(8, append([]byte{8, 7}, field(8, []byte(said))...))...))))
	}
	file := record(field(3, []byte("brain.Event:2")))
	file = append(file, text("args/text_summary", `{"per_device_train_batch_size": 6, "bf16": true}`)...)
	file = append(file, text("model_config/text_summary", `{"model_type": "llama", "seq_length": 32768, "max_length": 20}`)...)
	file = append(file, text("hyperparameters", "|param|value|\n|-|-|\n|optimizer|lion|\n")...)
	_, found, err := read(t, "events.out.tfevents.1.h", file)
	if p := found.Parameters; err != nil || p == nil || *p.BatchSize != 6 || *p.Precision != "bf16-mixed" || *p.Optimizer != "lion" || p.SequenceLength != nil {
		t.Errorf("%+v, %v", found.Parameters, err)
	}
}
