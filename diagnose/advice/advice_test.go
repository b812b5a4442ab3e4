package advice

import (
	"testing"
)

// TestCatalogue: each piece of advice says something, to somebody.
func TestCatalogue(t *testing.T) {
	for _, a := range All() {
		if a.Text == "" || a.For == 0 {
			t.Errorf("%+v", a)
		}
	}
}

func TestWith(t *testing.T) {
	a := Find("checkpointing=full").With("at", " at train.py:3")
	if a.Text != "Activation checkpointing at train.py:3" {
		t.Error(a.Text)
	}
}
