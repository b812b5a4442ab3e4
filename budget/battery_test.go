package budget

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

func TestBattery(t *testing.T) {
	f, err := os.Open(os.Getenv("BATTERY"))
	if err != nil {
		t.Skip()
	}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 4<<20)
	bad, n := map[string]int{}, 0
	for sc.Scan() {
		var r struct {
			Type, Class string
			Config      map[string]any
			Tensors     map[string][]int64
			Total       int64
		}
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		n++
		c, err := NewConfig(r.Config)
		if err != nil {
			t.Error(r.Type, err)
			continue
		}
		ts, err := Tensors(c)
		if err != nil {
			bad[r.Class]++
			if bad[r.Class] < 2 {
				t.Error(r.Class, err, r.Config)
			}
			continue
		}
		got := map[string]string{}
		var total int64
		for _, x := range ts {
			if !x.Buffer {
				got[x.Name] = fmt.Sprint(x.Shape)
				total += x.Elements()
			}
		}
		diff := ""
		for name, s := range r.Tensors {
			if got[name] != fmt.Sprint(s) {
				diff += fmt.Sprintf(" -%s%v(%s)", name, s, got[name])
			}
			delete(got, name)
		}
		for name, s := range got {
			diff += " +" + name + s
		}
		if diff != "" || total != r.Total {
			bad[r.Class]++
			if bad[r.Class] < 2 {
				if len(diff) > 700 {
					diff = diff[:700]
				}
				cj, _ := json.Marshal(r.Config)
				t.Errorf("%s %s: total %d want %d:%s", r.Class, cj, total, r.Total, diff)
			}
		}
	}
	t.Log(n, bad)
}
