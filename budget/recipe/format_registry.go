package recipe

import (
	"slices"
	"strings"
	"sync"
)

// formats are those of formats.txt, read when they are first asked for.
var formats = sync.OnceValue(readFormats)

// settles are what settles what more than one field says together.
var settles = map[string]func(*fields, *Recipe){"openRLHF": openRLHFTrainers, "verl": verlActor, "foundry": foundryRanks,
	"titan": titanDefaults, "torchtune": torchtuneAlone, "titanPipeline": titanPipeline, "axolotl": axolotlShards,
	"peft": peftDefaults, "factory": factoryDefaults, "megatronSwift": megatronSwift, "swift": swiftDefaults,
	"diffusers": diffusersDefaults, "unsloth": unslothDefaults, "loop": loopDefaults, "trl": trlTrainers,
	"arguments":  argumentDefaults,
	"trlCommand": trlCommand, "litgpt": litgptRanks, "megatron": megatronModel, "nemo": nemoModel, "autoModel": autoModelSteps,
	"serving": servingByPieces}

// inFloat8 is a meaning that a field has where torchtitan converts layers to float8, and byTensor with one scale for a tensor.
func inFloat8(m meaning) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if !strings.Contains(f.values["model.converters"], "float8") && !f.yes("float8.enable_float8_linear") {
			return nil, false
		}
		return m(v, f)
	}
}

func byTensor(m meaning) meaning {
	return inFloat8(func(v string, f *fields) ([]Flag, bool) {
		if strings.HasPrefix(f.values["float8.recipe_name"], "rowwise") {
			return nil, false
		}
		return m(v, f)
	})
}

// unpacked is a meaning that a type has where weights aren't packed. Elsewhere the type is
// what is computed in alone.
func unpacked(m meaning) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if f.yes("load_in_4bit") || f.yes("load_in_8bit") || isSet(f.values["quantization_bit"]) || f.yes("pure_bf16") ||
			strings.Contains(f.values["model._component_"], ".qlora_") || f.yes("model.quantize_base") {
			return nil, true
		}
		return m(v, f)
	}
}

// loaded is the type that Transformers loads weights in: the checkpoint's with auto, which has 16 bits nearly always.
func loaded(v string, f *fields) ([]Flag, bool) {
	if v == "auto" {
		v = "bf16"
	}
	flags, ok := words["dtypes"](v, f)
	if ok && flags[0].Value == "fp32" && (f.yes("bf16") || f.yes("fp16")) {
		return nil, true // autocast says more
	}
	return flags, ok
}

// autocast is a meaning that mixed precision has where weights are loaded in 32 bits.
func autocast(m meaning) meaning {
	return unpacked(func(v string, f *fields) ([]Flag, bool) {
		for _, name := range []string{"torch_dtype", "dtype"} {
			if strings.HasSuffix(f.values[name], "16") || f.values[name] == "auto" {
				return nil, true
			}
		}
		return m(v, f)
	})
}

// withAdapters says whether a file with fields of LoRA trains by it.
func withAdapters(f *fields) bool {
	return f.yes("use_peft") || slices.ContainsFunc([]string{"finetuning_type", "adapter", "train_type", "tuner_type"},
		func(name string) bool { return strings.Contains(f.values[name], "lora") })
}

// adapted is a meaning that a field has where adapters are trained. Elsewhere the field says nothing.
func adapted(m meaning) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if !withAdapters(f) {
			return nil, true
		}
		return m(v, f)
	}
}

// none is of a field that takes memory which isn't counted.
func none(string, *fields) ([]Flag, bool) { return nil, false }
