package advice

import (
	"strings"
	"testing"
)

// TestCatalogue: each piece of advice says something, once, and refers to others that there are.
func TestCatalogue(t *testing.T) {
	all, _ := catalogue()
	if len(all) != strings.Count(text, "\n## ") {
		t.Errorf("%d of %d: an id is given twice", len(all), strings.Count(text, "\n## "))
	}
	for id, a := range all {
		if a.Text == "" || strings.Contains(a.Text, "  ") || strings.Contains(a.Text+a.Code, "{#") {
			t.Errorf("%s: %+v", id, a)
		}
	}
}

func TestFind(t *testing.T) {
	if a := Find("checkpointing=full", "at", " at train.py:3"); a.Text != "Activation checkpointing at train.py:3" ||
		!strings.HasPrefix(a.Code, "model.gradient_checkpointing_enable(") || !strings.HasPrefix(a.Price, "checkpointing {peak}") {
		t.Errorf("%+v", a)
	}
	if got := *Text("missing_no_grad.untraced", "where", "f"); !strings.HasPrefix(got, "Put torch.no_grad() around f: ") ||
		!strings.Contains(got, ". If these passes are trained on") {
		t.Error(got)
	}
	if Cost("checkpointing_ineffective") != "compute" || Cost("weights_twice.again") != "other" || Cost("memory_fraction") != "free" {
		t.Error("costs")
	}
}
