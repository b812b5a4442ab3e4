package source

import (
	"fmt"
	"strings"
	"testing"
)

// TestProgram: statements have what heads stand over them, where their values begin, and what they give names.
func TestProgram(t *testing.T) {
	all, ok := Program("if a:\n    b = c = (1,\n         2\n    ); d: int = 1e-4\nfor x, y in f'{z}', 'q':\n  del k['z']\nfrom m import n as o\n")
	if !ok {
		t.Fatal("too long")
	}
	got := ""
	for _, s := range all {
		got += fmt.Sprintf("%d %s %d %d %s|", s.Parent, s.Word, len(s.Words), s.Value, strings.Join(s.Bound, ","))
	}
	const want = "-1 if 2 0 |0  9 4 b,c|0  5 4 d,int|-1 for 8 0 for,x,y|3  5 0 |-1  6 0 from,m,import,n,as,o|"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if w := all[3].Words; w[5] != (Word{'f', "{z}", -1}) || w[7] != (Word{'s', "q", -1}) || all[1].Words[4].Mate != 8 {
		t.Errorf("%+v %+v", w, all[1].Words)
	}
	if _, ok := Program(strings.Repeat("a ", maxTokens)); ok {
		t.Error("a long program is read")
	}
}
