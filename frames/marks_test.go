package frames

import "testing"

// TestNamesOfFunctions: a name says that weights are made by a verb before them, and a word that a cache is.
func TestNamesOfFunctions(t *testing.T) {
	for name, want := range map[string]Marks{
		"init_weights":      Named,
		"_load_all_params":  Named,
		"weight_decay":      0,
		"get_parameters":    0,
		"allocate_kv_cache": OwnCache,
		"_cache":            OwnCache,
		"cached_features":   0,
		"":                  0,
	} {
		if got := OfProgram(name); got != want {
			t.Errorf("%q: marks %#x, want %#x", name, got, want)
		}
	}
}
