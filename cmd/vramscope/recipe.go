package main

const recipeHelp = "take the setting from a framework's own `FILE`: torchtune, axolotl, LLaMA-Factory, PEFT, accelerate, " +
	"torchtitan, TrainingArguments, DeepSpeed, Megatron, vLLM or SGLang arguments (repeatable; flags win)"
