// Package models gives tests configurations of models.
package models

import (
	"encoding/json"
	"maps"
	"os"
	"testing"
)

// With is a configuration with another value in a field.
func With(c map[string]any, field string, v any) map[string]any {
	d := maps.Clone(c)
	d[field] = v
	return d
}

// Small is the configuration of a small model of a family, the first in a file of such.
func Small(t testing.TB, file, family string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var ms []struct{ Config map[string]any }
	if err := json.Unmarshal(data, &ms); err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		if m.Config["model_type"] == family {
			return m.Config
		}
	}
	t.Fatal("no small model of ", family)
	return nil
}
