package settings

import "testing"

// TestProfiles: versions choose rows, and no name is in two rows of all versions.
func TestProfiles(t *testing.T) {
	for name, optimizer := range map[string]string{"torchtitan": "adamw-fused", "torchtitan@2024.12": "adamw", "torchtitan@2025.3": "adamw-fused",
		"torchtitan@2025": "adamw-fused"} {
		if got := ProfileOf(name).Usual[1].Value; got != optimizer {
			t.Errorf("%s takes %s", name, got)
		}
	}
	seen := map[string]bool{}
	for _, x := range profiles() {
		if seen[x.Name+"@"+x.Before] {
			t.Errorf("%s twice", x.Name)
		}
		seen[x.Name+"@"+x.Before] = true
	}
	for _, name := range Frameworks() {
		if ProfileOf(name).Before != "" || !seen[name+"@"] {
			t.Errorf("%s has no row of its newest version", name)
		}
	}
}
