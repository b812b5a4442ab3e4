package profiles

import "testing"

func TestNativeNames(t *testing.T) {
	for full, want := range map[string]string{
		"at::_ops::mm::call(at::Tensor const&, at::Tensor const&)":                                                "aten::mm",
		"at::_ops::mm::redispatch(c10::DispatchKeySet, at::Tensor const&)":                                        "at::_ops::mm::redispatch",
		"torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)":  "MmBackward0",
		"torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)":                                       "AccumulateGrad",
		"at::Tensor at::_sum_to<c10::SymInt>(at::Tensor, c10::ArrayRef<c10::SymInt>, bool)":                       "at::_sum_to",
		"at::native::(anonymous namespace)::addmm_out_cuda_impl(at::Tensor&)":                                     "at::native::(anonymous namespace)::addmm_out_cuda_impl",
		"at::native::f(at::Tensor&)::{lambda()#1}::operator()() const":                                            "at::native::f::operator()",
		"torch::autograd::InputMetadata::reduce_grad(at::Tensor&) const":                                          "torch::autograd::InputMetadata::reduce_grad",
		"c10::TensorImpl::~TensorImpl() [clone .localalias]":                                                      "c10::TensorImpl::~TensorImpl",
		"std::vector<at::Tensor, std::allocator<at::Tensor> >::~vector()":                                         "std::vector::~vector",
		"bool operator<(a::T const&, a::T const&)":                                                                "operator<",
		"void at::native::gpu_kernel<at::f(at::T&)::{lambda(float)#1}>(at::T&, at::f(at::T&)::{lambda(float)#1})": "at::native::gpu_kernel",
		"auto f(int)::{lambda(auto:1)#1}::operator()<float>(float) const -> void":                                 "f::operator()",
		"flash_fwd(int":    "flash_fwd(int",
		"a>b(":             "a>b(",
		"ncclAllReduce":    "ncclAllReduce",
		"_PyEval_EvalCode": "_PyEval_EvalCode",
		"":                 "",
	} {
		if got := nativeName(full); got != want {
			t.Errorf("%s: %q, want %q", full, got, want)
		}
	}
}

func TestPythonNames(t *testing.T) {
	for _, c := range []struct{ function, file, want string }{
		{"forward", "/opt/lib/python3.11/site-packages/transformers/models/qwen2/modeling_qwen2.py", "modeling_qwen2.forward"},
		{"backward", "/opt/lib/python3.11/site-packages/torch/autograd/__init__.py", "autograd.backward"},
		{"<module>", `C:\work\train.py`, "train.<module>"},
		{"f", "__init__.py", "__init__.f"},
		{"forward", "<eval_with_key>.7", "<eval_with_key>.7.forward"},
		{"_bootstrap", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>._bootstrap"},
		{"f", "", "f"},
		{"", "train.py", "train.?"},
	} {
		if got := pythonName(c.function, c.file); got != c.want {
			t.Errorf("%s in %s: %q, want %q", c.function, c.file, got, c.want)
		}
	}
}

// TestMachinery leaves out what is on every stack, and nothing else.
func TestMachinery(t *testing.T) {
	for _, c := range []struct {
		function, file string
		out            bool
	}{
		{"torch::unwind::unwind()", "??", true},
		{"torch::CapturedTraceback::gather(bool, bool, bool)", "libtorch_cpu.so", true},
		{"c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)", "", true},
		{"at::_ops::mm::redispatch(c10::DispatchKeySet, at::Tensor const&)", "", true},
		{"at::_ops::empty_memory_format::call(int)", "", true},
		{"_PyEval_EvalFrameDefault", "libpython3.11.so.1.0", true},
		{"slot_tp_call", "/usr/src/Python-3.11.7/Objects/typeobject.c", true},
		{"partial_call", "./Modules/_functoolsmodule.c", true},
		{"THPVariable_dealloc(_object*)", "python_variable.cpp", true},
		{"??", "libtorch_cuda.so", true},
		{"start_thread", "", true},
		{"at::_ops::mm::call(at::Tensor const&)", "", false},
		{"at::native::matmul(at::Tensor const&)", "", false},
		{"torch::autograd::Engine::evaluate_function(int)", "", false},
		{"torch::autograd::generated::MmBackward0::apply(int)", "", false},
		{"at::cuda::allocateCUDABlasWorkspace(unsigned long)", "", false},
		{"c10d::Reducer::initialize_buckets(int)", "", false},
		{"ncclAllReduce", "libnccl.so.2", false},
		{"cudnnConvolutionForward", "", false},
		{"clone_weights", "ext.cpp", false},
		{"mine::Objects::make()", "/home/me/Objects/make.c", false},
	} {
		if got := machinery(c.function, c.file); got != c.out {
			t.Errorf("%s in %s: left out %v", c.function, c.file, got)
		}
	}
}
