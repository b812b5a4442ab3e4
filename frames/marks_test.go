package frames

import "testing"

// TestNamesOfCaches: a name says that keys and values are cached, or only that
// something is; names of other caches say what. Others say that weights are made.
func TestNamesOfCaches(t *testing.T) {
	for name, want := range map[string]Marks{
		"allocate_kv_cache":        OwnCache,
		"_init_kvcache":            OwnCache,
		"create_key_value_caches":  OwnCache,
		"set_up_paged_kv_cache":    OwnCache,
		"setup_caches":             AnyCache,
		"init_cache":               AnyCache,
		"build_feature_cache":      0,
		"make_key_cache":           0, // or keys of a contrastive loss
		"init_kv_cache_dataloader": 0,
		"get_kv_cache":             0,
		"init_weights":             Named,
		"empty_cache":              0,
		"":                         0,
	} {
		if got := OfProgram(name); got != want {
			t.Errorf("%q: marks %#x, want %#x", name, got, want)
		}
	}
}
