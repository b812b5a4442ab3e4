package units

import "testing"

func TestParse(t *testing.T) {
	for s, want := range map[string]int64{
		"40GiB": 40 << 30, "512 MiB": 512 << 20, "80GB": 80 << 30, " 1.5 g ": 3 << 29, "2t": 2 << 40, "64k": 64 << 10, "1000": 1000, "7B": 7,
		"": 0, "GiB": 0, "0": 0, "-1GiB": 0, "4090 Ti": 0, "3080 12G": 0, "1GiBB": 0, "1GK": 0, "inf": 0, "NaN": 0, "1e30": 0, "4194304TiB": 0, "ten": 0, "0.5": 0, "0.9B": 0, "0.5K": 512,
	} {
		if got, err := Parse(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
}
