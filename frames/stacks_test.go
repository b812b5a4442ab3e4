package frames

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/snapshot"
)

// TestFrames tells whose code a frame is and in which language, by its path.
func TestFrames(t *testing.T) {
	for _, c := range []struct {
		function, file string
		line           int32
		language       Language
		owner          Owner
	}{
		{"train", "/home/ada/run/train.py", 12, Python, User},
		{"train", `D:\work\project\train.py`, 12, Python, User},
		{"<module>", "/tmp/ipykernel_77/123456.py", 3, Python, User},
		{"<module>", "<ipython-input-3-abc>", 3, Python, User},
		{"forward", "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py", 134, Python, Torch},
		{"forward", "/home/ada/pytorch/torch/nn/modules/linear.py", 134, Python, Torch},
		{"forward", `C:\py\Lib\site-packages\torch\nn\modules\linear.py`, 134, Python, Torch},
		{"forward", "/opt/conda/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py", 9, Python, Library},
		{"run", "/usr/lib/python3.11/threading.py", 9, Python, Library},
		{"run", `C:\Python311\Lib\threading.py`, 9, Python, Library},
		{"call", "/tmp/torchinductor_ada/xy/cxyz.py", 9, Python, Compiled},
		{"call", `C:\Temp\torchinductor_ada\xy\cxyz.py`, 9, Python, Compiled},
		{"call", "/data/cache/sw/cswp5ixeakqt67jllg4cafb436aapz7anou4ezexk47xedoait66.py", 9, Python, Compiled},
		{"call", "/data/cache/ab/cswp5ixeakqt67jllg4cafb436aapz7anou4ezexk47xedoait66.py", 9, Python, User},
		{"call", "/home/ada/sw/cswitch.py", 9, Python, User},
		{"forward", "<eval_with_key>.7", 4, Python, Torch},
		{"_bootstrap", "<frozen importlib._bootstrap>", 4, Python, Torch},
		{"at::_ops::mm::call(at::Tensor const&)", "??", 0, CPP, Internal},
		{"??", "/opt/torch/lib/libtorch_cuda.so", 64466060, CPP, Internal},
		{"PyEval_EvalCode", "/usr/lib/libpython3.11.so.1.0", 2427107, CPP, Internal},
		{"_start", "/usr/bin/python3.11", 4224, CPP, Internal},
		{"c10::cuda::malloc()", "CUDACachingAllocator.cpp", 0, CPP, Internal},
		{"", "", 0, Other, Internal},
	} {
		s := &snapshot.Snapshot{Strings: []string{c.function, c.file}, Frames: []snapshot.Frame{{Function: 0, File: 1,
			Line: c.line}}}
		v := New(s)
		if got := v.Language(0); got != c.language {
			t.Errorf("%s %s: language %v, want %v", c.function, c.file, got, c.language)
		}
		if got := v.Owner(0); got != c.owner {
			t.Errorf("%s %s: owner %d, want %d", c.function, c.file, got, c.owner)
		}
	}
}

// TestSite finds the line to show for stacks of a shipped recording: a library's
// with the user's that called it, the user's own, and autograd's node where no
// line of Python is recorded.
func TestSite(t *testing.T) {
	s, err := snapshot.Open("../testdata/recordings/qwen_vocab_oom__05b/snapshot_named.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := New(s)
	if got := v.Recorded(&s.Devices[0]); got != "all" {
		t.Errorf("stacks recorded: %s, want all", got)
	}
	want := map[string]bool{"ForCausalLMLoss < sft_step aten::_to_copy": false, " <  LogSoftmaxBackward0": false}
	for id := 1; id < s.NumStacks(); id++ {
		site := v.Site(snapshot.StackID(id))
		key := site.Function + " < " + site.CalledFrom.Function + " " + site.Op
		if _, ok := want[key]; ok {
			want[key] = true
		}
		if site.CalledFrom != (Line{}) && len(v.User(snapshot.StackID(id))) == 0 {
			t.Errorf("stack %d is called from %v but has no user line", id, site.CalledFrom)
		}
	}
	for key, seen := range want {
		if !seen {
			t.Errorf("no stack has the site %q", key)
		}
	}
}

// TestCompiled tells whose line code that torch.compile wrote stands for: PyTorch
// puts the lines that it was written for below its own frame.
func TestCompiled(t *testing.T) {
	const (
		call     = "call /tmp/torchinductor_ada/kb/ckb.py"
		attend   = "softmax /home/ada/net.py"
		train    = "train /home/ada/train.py"
		loss     = "ForCausalLMLoss /opt/site-packages/transformers/loss/loss_utils.py"
		run      = "__call__ /opt/site-packages/torch/_inductor/output_code.py"
		dispatch = "__torch_dispatch__ /opt/site-packages/torch/_functorch/_aot_autograd/runtime_wrappers.py"
		bench    = "get_empty_cache_for_benchmark /opt/site-packages/triton/backends/nvidia/driver.py"
		mm       = "at::_ops::mm::call() ??"
	)
	for _, c := range []struct {
		name   string
		frames []string // innermost first
		want   string
	}{
		{"the user's line", []string{call, attend, run, train}, "softmax <  torch.compile"},
		{"a library's line", []string{call, loss, run, train}, "ForCausalLMLoss < train torch.compile"},
		{"an operator of the line", []string{mm, call, attend, run, train}, "softmax <  aten::mm"},
		{"a line without the one that it stands for", []string{call, run, train}, "train <  torch.compile"},
		{"nothing but the code itself", []string{dispatch, call, run}, "call <  torch.compile"},
		{"trials of kernels", []string{bench, call, run, train}, "get_empty_cache_for_benchmark < train "},
		{"a line that isn't compiled", []string{attend, train}, "softmax <  "},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &snapshot.Snapshot{}
			var ids []snapshot.FrameID
			for i, f := range c.frames {
				function, file, _ := strings.Cut(f, " ")
				s.Strings = append(s.Strings, function, file)
				s.Frames = append(s.Frames, snapshot.Frame{Function: snapshot.StringID(2 * i), File: snapshot.StringID(2*i + 1),
					Line: int32(i + 1)})
				ids = append(ids, snapshot.FrameID(i))
			}
			site := New(s).site(ids)
			if got := site.Function + " < " + site.CalledFrom.Function + " " + site.Op; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A line that torch.fx generated is called what the model's line is.
func TestLinesOfGraphs(t *testing.T) {
	s, err := snapshot.Open("../testdata/said/said.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, lines := New(s), map[string]int{}
	for i, a := range s.Devices[0].Events.Action {
		if stack := s.Devices[0].Events.StackOf(i); a == snapshot.Alloc && stack != 0 && v.FX(s.Stack(stack)[0]) != (Node{}) {
			lines[v.Site(stack).File]++
		}
	}
	if len(lines) != 1 || lines["/home/user/said.py"] != 21 {
		t.Errorf("made at %v, want 21 allocations by /home/user/said.py", lines)
	}
}
