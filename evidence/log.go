package evidence

import "slices"

// Log is what a log tells beside its out-of-memory messages and memory summaries.
type Log struct {
	Source       int
	Steps        *Steps // never nil
	Failures     []RankFailure
	HostFailures []HostFailure // in file order, repeats included
	Servers      []Server
	Engine       Engine
	Phases       []PhaseReading // in file order
	Pressure     Pressure
	Workers      []Worker // in the order in which the log names them, nil where it doesn't name two
	Ending       Ending
	Dropped      int // out-of-memory messages and summaries beyond the bound
}

// Worker is one of a run's ranks or GPUs, and the most that its lines say it held.
type Worker struct {
	Name     string // "rank 2", "GPU 1"
	MaxBytes int64
}

// How a process ended.
type How string

// The ways in which one may have ended. EndedWell is only told where that was seen.
const (
	UnknownEnd How = "unknown"
	EndedWell  How = "well"
	GPUMemory  How = "gpu_memory"
	HostMemory How = "host_memory"
	Killed     How = "killed" // by signal 9, whose sender nobody names
	Failed     How = "failed" // for something else than memory
	Stopped    How = "stopped"
)

// Ending is how a process ended, as its log or its launcher's record tells. The zero
// value is unknown.
type Ending struct {
	How      How
	Text     string // what was said of it
	Line     int    // where, 0: it is no text's
	UserFile string // "" without a traceback
	UserLine int
}

// OOMMessage is one "out of memory". Sizes are as exact as the message, which
// prints two decimals.
type OOMMessage struct {
	Source                   int     `json:"source"`
	Line                     int     `json:"line"` // where "out of memory" stands, 1-based
	GPU                      *int    `json:"gpu"`
	Rank                     *int    `json:"rank"` // as the launcher marks its lines, or as the log is called
	RequestedBytes           *int64  `json:"requested_bytes"`
	CapacityBytes            *int64  `json:"capacity_bytes"`
	DeviceFreeBytes          *int64  `json:"device_free_bytes"`
	ProcessBytes             *int64  `json:"process_bytes"` // "this process has X memory in use"
	AllocatedBytes           *int64  `json:"allocated_bytes"`
	ReservedUnallocatedBytes *int64  `json:"reserved_unallocated_bytes"`
	UserFile                 *string `json:"user_file"` // null without a traceback
	UserLine                 *int    `json:"user_line"`
	UserFunction             *string `json:"user_function"` // null where the form of the frames doesn't say
	Phase                    *string `json:"phase"`         // as the traceback's frames tell
	Verdict                  *string `json:"verdict"`       // as of requests that failed in a recording; null until judged
	Fix                      *string `json:"fix"`           // what to change against it

	AllowedBytes     *int64 `json:"-"` // under a memory fraction
	PrivatePoolBytes *int64 `json:"-"`
	// BesideBytes is of this process outside of PyTorch's allocator (MPS: "other allocations").
	BesideBytes    *int64       `json:"-"`
	OtherProcesses []ProcessUse `json:"-"`
	OwnFile        string       `json:"-"` // as UserFile, but no source tree of PyTorch; "" without such a frame
	OwnLine        int          `json:"-"`
	Scene          Scene        `json:"-"` // what else the traceback shows
	AfterStep      int64        `json:"-"` // the last step that the log had reported, -1: none
	// WentOn: steps that came after the failure are told, of the same run or of one started again.
	WentOn   bool   `json:"-"`
	UpToStep int64  `json:"-"` // the last of them, -1: they have no numbers
	Handled  bool   `json:"-"` // it is no exception's text, but the program's own
	Backend  string `json:"-"` // CUDA, HIP, XPU, MPS, NPU, MUSA, CUDNN, CUBLAS
	Driver   bool   `json:"-"` // the words of the driver: no allocator of PyTorch's had refused
	// By is who asked, other than PyTorch's allocator: NCCL, CUBLAS_STATUS_ALLOC_FAILED, XLA; "" for that.
	By     string `json:"-"`
	Unsure bool   `json:"-"` // a failure that is often, but not always, one of memory
	// Unclear: the words of a failure, in no form that is known; Quote is the line.
	Unclear bool   `json:"-"`
	Quote   string `json:"-"`
	// Tokens are what was asked of an engine's pool, TokensFree what it has room for; 0: not said.
	Tokens, TokensFree int64 `json:"-"`
	// Beyond: asked for more bytes than a number holds ("more than 1EB").
	Beyond bool `json:"-"`
}

// ProcessUse is "Process N has X memory in use".
type ProcessUse struct {
	PID   int
	Bytes int64
}

// MemorySummary is one torch.cuda.memory_summary() table, or one memory_stats()
// dictionary. The table rounds down to a unit that leaves at most five or six digits.
type MemorySummary struct {
	Source             int    `json:"source"`
	Line               int    `json:"line"`   // of the title, 1-based
	Device             *int   `json:"device"` // null: memory_stats() names none
	AllocatedBytes     *int64 `json:"allocated_bytes"`
	PeakAllocatedBytes *int64 `json:"peak_allocated_bytes"`
	ReservedBytes      *int64 `json:"reserved_bytes"`
	PeakReservedBytes  *int64 `json:"peak_reserved_bytes"`
	OOMs               *int64 `json:"ooms"` // null when the table was cut before
}

// Steps sums up the steps that one log reports.
type Steps struct {
	Source            int      `json:"source"`
	Count             int      `json:"count"` // distinct steps
	First             *int64   `json:"first"` // as written
	Last              *int64   `json:"last"`
	MedianStepSeconds *float64 `json:"median_step_seconds"`
	MaxMemoryBytes    *int64   `json:"max_memory_bytes"`
	MaxReservedBytes  *int64   `json:"max_reserved_bytes"`

	Named        bool   `json:"-"` // MaxMemoryBytes is called allocated by the log
	Printed      string `json:"-"` // MaxMemoryBytes as printed, where its GB may be 1000³ or 1024³ bytes; "" where that is sure
	OnlyReserved bool   `json:"-"` // MaxMemoryBytes is the reserved figure: the log has no other
	Interrupted  bool   `json:"-"` // another bar moved between steps, as an evaluation's: the bar's times have it in them
	Curve        []Step `json:"-"` // at most 2048, evenly thinned
	Again        []int  `json:"-"` // lines from which on the numbers begin again, as those of the next job in the same log do
}

// Row is the part of the curve around a line in which the numbers only rise; line 0
// stands for the part that has the most steps.
func (s *Steps) Row(line int) []Step {
	var most []Step
	begin := 0
	for i := range len(s.Again) + 1 {
		end := begin
		for end < len(s.Curve) && (i == len(s.Again) || s.Curve[end].Line < s.Again[i]) {
			end++
		}
		if line > 0 && (i == len(s.Again) || line < s.Again[i]) {
			return s.Curve[begin:end]
		}
		if end-begin > len(most) {
			most = s.Curve[begin:end]
		}
		begin = end
	}
	return most
}

// Step is one step line.
type Step struct {
	Line           int
	Number         int64   // -1: the line has none
	Epoch          int64   // -1: not said
	Loss           float64 // NaN: not said
	Seconds        float64 // of this step, -1: not said
	AllocatedBytes int64   // -1: not said
	ReservedBytes  int64   // -1: not said
	At             int64   // nanoseconds of the log's own clock, 0: no time stamp
	Beside         int64   // number of the training's progress bar, of a line without a number of its own; 0: none
}

// RankFailure is one record of the list that torchrun prints when ranks failed.
type RankFailure struct {
	Line  int
	Rank  int
	First bool // the one it calls the root cause: it failed before the others
}

// HostFailure is one request that failed in the memory of the host, or a process
// that was killed for want of it.
type HostFailure struct {
	Line           int
	RequestedBytes *int64 // nil where a process was killed
	By             string // whose request failed, or who killed: one of the constants below, "NumPy", "TensorFlow"
	HeldBytes      int64  // what the killed process held, 0: not said
	LimitBytes     int64  // what the job may hold there, 0: not said
	Rank           *int   // whose process it was, nil: not said
	UserFile       string // "" without a traceback
	UserLine       int
	Steps          int // that had been told before
}

// Who tells of a failure on the host.
const (
	ByPyTorch      = "DefaultCPUAllocator"
	ByKernel       = "the kernel's out-of-memory killer"
	BySlurm        = "Slurm"
	ByKubernetes   = "Kubernetes"
	ByRay          = "Ray"
	BySystem       = "the operating system"
	BySharedMemory = "shared memory"
	ByPython       = "Python"
	ByAllocation   = "std::bad_alloc"
	ByPagingFile   = "the paging file" // of Windows
	ByLSF          = "LSF"
	ByPBS          = "PBS"
	BySignal       = "a signal"               // SIGKILL, whose sender nobody names
	ByLimit        = "whoever limits the job" // Slurm, HTCondor, a cluster's own
	ByWorker       = "a DataLoader worker"    // that ended, nobody says why
	ByPool         = "a worker process"       // likewise
	ByNotebook     = "the notebook's kernel"  // likewise
)

// Sure tells a failure of memory from an end that may have another cause.
func (h *HostFailure) Sure() bool { return h.By != BySignal && !h.Silent() }

// Silent reports whether a process ended, and nobody says why.
func (h *HostFailure) Silent() bool { return h.By == ByWorker || h.By == ByPool || h.By == ByNotebook }

// Server is a program that serves or draws, which a log starts or whose workers it
// shows. One beside a training takes a share of the GPU, as runs with
// reinforcement learning have it.
type Server struct {
	Name string // sglang, vLLM, ComfyUI
	Line int    // of its first mention
}

// Draws tells programs that make pictures: their bars are of no training.
func Draws(server string) bool {
	switch server {
	case "ComfyUI", "Fooocus", "Stable Diffusion web UI", "InvokeAI":
		return true
	}
	return false
}

// Engine is what an inference engine said at its start to take of a GPU, in bytes,
// the most of any worker; 0: not said.
type Engine struct {
	Name                   string // vLLM, sglang, TensorRT-LLM: the one that spoke last
	Weights, Cache, Graphs int64
	Activations            int64 // of a pass, or buffers for them
	Outside                int64 // of the process, but not PyTorch's
	Total, Allowed         int64 // of the GPU, and the part that it may take
	Share                  float64
	Left                   int64 // free on the GPU after all of it
	Tokens                 int64 // that the cache has room for
	Preemptions            int64 // requests that had to wait because the cache was full
	CacheKnown             bool  // it said so: Cache may be 0 or less
}

// PhaseReading is what a trainer printed of a GPU before or after a phase, in bytes;
// negative: not said.
type PhaseReading struct {
	Line                             int
	When                             string // "before vllm offload"
	Used, Total, Allocated, Reserved int64
}

// Pressure is what trainers say of a GPU's size and of how often it was full.
type Pressure struct {
	// Flushes is how often PyTorch gave its cache back before it got more.
	Flushes       int64
	Line          int   // that says so first
	CapacityBytes int64 // 0: not said, negative: not the same of all GPUs
}

// Scene is what the frames of a traceback show beside the phase: code of
// libraries whose memory has its own remedy.
type Scene struct {
	Doing         Doing
	Checkpointing bool   // the trace runs through torch.utils.checkpoint
	NoGrad        bool   // below torch.no_grad or inference_mode, as a decorator
	Evaluating    bool   // below a trainer's evaluation, or a function of such a name
	Server        string // vLLM, sglang, ComfyUI: whose worker or part it is; "" for none
}

// Doing is what innermost frames that are known were doing, "" when none is.
type Doing string

// What a program may have been doing.
const (
	Logits            Doing = "logits"             // logits over a vocabulary, or their loss
	Attention         Doing = "attention"          // attention that keeps its scores
	Convolution       Doing = "convolution"        // maps of features
	Messages          Doing = "messages"           // along the edges of a graph
	Foreach           Doing = "foreach"            // an optimizer's step over lists of tensors
	OptimizerLoad     Doing = "optimizer_load"     // Optimizer.load_state_dict
	CheckpointLoad    Doing = "checkpoint_load"    // torch.load
	FullState         Doing = "full_state"         // a sharded model's state, whole
	EvaluationOutputs Doing = "evaluation_outputs" // joined over batches or ranks
	Buckets           Doing = "buckets"            // DDP's, for gradients
	Replicas          Doing = "replicas"           // DataParallel's
	ModelCopy         Doing = "model_copy"         // copy.deepcopy
	ToDevice          Doing = "to_device"          // the user's line moves a tensor there
	ImageDecoder      Doing = "image_decoder"      // the autoencoder of diffusers
	Diffusion         Doing = "diffusion"          // other parts of its pipelines
	UnfusedAttention  Doing = "unfused_attention"  // scaled_dot_product_attention by its plain kernel
	Pinning           Doing = "pinning"            // of host memory
	StateDict         Doing = "state_dict"         // a save
)

// Parameters are what a tracker says of how a run was set; nil: it doesn't.
type Parameters struct {
	Source         int      `json:"source"`
	Tracker        string   `json:"tracker"`
	BatchSize      *int64   `json:"batch_size"` // of one GPU's pass
	SequenceLength *int64   `json:"sequence_length"`
	Accumulation   *int64   `json:"accumulation"` // passes for a step
	GPUs           *int64   `json:"gpus"`
	TokensPerStep  *int64   `json:"tokens_per_step"`
	Model          *string  `json:"model"`
	Precision      *string  `json:"precision"`
	Optimizer      *string  `json:"optimizer"`
	GPU            *string  `json:"gpu"` // the GPU's name
	Command        *string  `json:"command"`
	FinalLoss      *float64 `json:"final_loss"`
	MeanLoss       bool     `json:"-"` // that is the whole training's mean, as totals tell, no step's
	Machine        *Machine `json:"-"` // stands in a report's environment
}

// Machine is where a program ran, as its launcher wrote down; nil: not told.
type Machine struct {
	Torch, CUDA, Driver, Python *string
	GitCommit                   *string // of the folder that the program was started in
	Settings                    *string // the allocator's
	WorldSize                   *int
	Simulated                   *Simulated // nil: the GPU was there
}

// Told reports whether anything is.
func (p *Parameters) Told() bool {
	q := *p
	q.Source, q.Tracker = 0, ""
	return q != Parameters{}
}

// FromLog is the tracker of what a program's own output says of its settings.
const FromLog = "log"

// SetTokens works out the tokens of a step from what is known but for a log, which doesn't tell which
// GPUs share a batch.
func (p *Parameters) SetTokens() {
	if p.TokensPerStep != nil || p.BatchSize == nil || p.SequenceLength == nil || p.Tracker == FromLog {
		return
	}
	tokens := *p.BatchSize
	for _, n := range []int64{*p.SequenceLength, Or(p.Accumulation, 1), Or(p.GPUs, 1)} {
		if n < 1 || tokens > (1<<60)/n {
			return
		}
		tokens *= n
	}
	p.TokensPerStep = &tokens
}

// DropMeans leaves the mean of all losses out where another file of the run tells the last step's.
func (e *Evidence) DropMeans() {
	if slices.ContainsFunc(e.Parameters, func(p Parameters) bool { return p.FinalLoss != nil && !p.MeanLoss }) {
		for i := range e.Parameters {
			if p := &e.Parameters[i]; p.MeanLoss {
				p.FinalLoss = nil
			}
		}
	}
}

// Settings joins what all files of a run say of how it was set; nil: nothing.
func (e *Evidence) Settings() *Parameters {
	if e == nil || len(e.Parameters) == 0 {
		return nil
	}
	ofLog := func(p Parameters) bool { return p.Tracker == FromLog }
	list := slices.DeleteFunc(slices.Clone(e.Parameters), ofLog)
	for i := range e.Parameters { // what a tracker says counts first
		if ofLog(e.Parameters[i]) {
			list = append(list, e.Parameters[i])
		}
	}
	all := list[0]
	for i := range list[1:] {
		p := &list[1+i]
		all.BatchSize, all.SequenceLength = either(all.BatchSize, p.BatchSize), either(all.SequenceLength, p.SequenceLength)
		all.Accumulation, all.GPUs = either(all.Accumulation, p.Accumulation), either(all.GPUs, p.GPUs)
		all.Model, all.Precision = either(all.Model, p.Model), either(all.Precision, p.Precision)
		all.Optimizer, all.GPU = either(all.Optimizer, p.Optimizer), either(all.GPU, p.GPU)
		all.Command, all.FinalLoss = either(all.Command, p.Command), either(all.FinalLoss, p.FinalLoss)
		all.Machine = either(all.Machine, p.Machine)
	}
	all.TokensPerStep = nil
	all.SetTokens()
	return &all
}

func either[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
