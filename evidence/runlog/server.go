package runlog

import (
	"bytes"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
)

// serverMarks are what only a started server, or a program that draws, brings into
// a log: its command, its own settings, and the names of its processes.
var serverMarks = []struct{ text, name string }{
	{"sglang.launch_server", "sglang"}, {"server_args=ServerArgs(", "sglang"}, {"sglang::", "sglang"},
	{"vllm.entrypoints", "vLLM"}, {"vllm serve ", "vLLM"}, {"VLLM::", "vLLM"}, {"LLM engine (v", "vLLM"},
	{"EngineCore", "vLLM"}, {"RayWorkerWrapper", "vLLM"}, {"(VllmWorker", "vLLM"}, {"(Worker_TP", "vLLM"},
	{"SGLangEngine", "sglang"}, {"text-generation-launcher", "TGI"}, {"text_generation_launcher", "TGI"},
	{"[TensorRT-LLM]", "TensorRT-LLM"}, {"[TRT-LLM]", "TensorRT-LLM"},
	{"llama_model_load", "llama.cpp"}, {"load_tensors: ", "llama.cpp"}, {"llama_context", "llama.cpp"},
	{"Requested to load ", "ComfyUI"}, {"got prompt", "ComfyUI"}, {"ComfyUI", "ComfyUI"},
	{"Set vram state to: ", "ComfyUI"}, {"Using pytorch attention", "ComfyUI"}, {"Using split attention", "ComfyUI"},
	{"[Memory Management]", "Stable Diffusion web UI"}, {"Moving model(s) has taken", "Stable Diffusion web UI"},
	{"[Unload] Trying to free", "Stable Diffusion web UI"}, {"[TM][", "LMDeploy"}, {"lmdeploy - ", "LMDeploy"},
	{"!!! Exception during processing", "ComfyUI"}, {"[Fooocus", "Fooocus"},
}

// serverLine notes a server at its first mention.
func (p *Parser) serverLine(number int, line []byte, _ features) bool {
	for _, m := range serverMarks {
		if !bytes.Contains(line, []byte(m.text)) {
			continue
		}
		if !slices.ContainsFunc(p.report.Servers, func(s evidence.Server) bool { return s.Name == m.name }) {
			p.report.Servers = append(p.report.Servers, evidence.Server{Name: m.name, Line: number})
		}
		break
	}
	return false
}

// ServerOf is the kind of server whose process has a name, "" for any other.
func ServerOf(process string) string {
	for _, m := range serverMarks {
		if strings.Contains(process, m.text) {
			return m.name
		}
	}
	return ""
}
