package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/timeline"
)

func TestRuns(t *testing.T) {
	const none = timeline.NoRun
	for name, test := range map[string]struct {
		values, other string
		length        int
		at, in        []uint32
		places        []timeline.Places
	}{
		"nothing":          {"", "ab", 2, nil, []uint32{none}, nil},
		"too short":        {"ab", "abc", 3, nil, []uint32{none}, nil},
		"one of its kind":  {"ab", "ab", 2, []uint32{0}, []uint32{0}, []timeline.Places{{Count: 1}}},
		"single values":    {"abca", "xcb", 1, []uint32{0, 1, 2, 0}, []uint32{none, 2, 1}, []timeline.Places{{0, 3, 2, 3, 3}, {1, 1, 1, 0, 0}, {2, 2, 1, 0, 0}}},
		"a loop":           {"xabcabcab", "bcaab", 3, []uint32{0, 1, 2, 3, 1, 2, 3}, []uint32{2, none, none}, []timeline.Places{{0, 0, 1, 0, 0}, {1, 4, 2, 3, 3}, {2, 5, 2, 3, 3}, {3, 6, 2, 3, 3}}},
		"overlapping":      {"aaaa", "aa", 2, []uint32{0, 0, 0}, []uint32{0}, []timeline.Places{{0, 2, 3, 1, 1}}},
		"another way on":   {"abcabdabc", "abdabc", 3, []uint32{0, 1, 2, 3, 4, 5, 0}, []uint32{3, 4, 5, 0}, []timeline.Places{{0, 6, 2, 6, 6}, {1, 1, 1, 0, 0}, {2, 2, 1, 0, 0}, {3, 3, 1, 0, 0}, {4, 4, 1, 0, 0}, {5, 5, 1, 0, 0}}},
		"unevenly":         {"abxabyzzab", "zz", 2, []uint32{0, 1, 2, 0, 3, 4, 5, 6, 0}, []uint32{5}, []timeline.Places{{0, 8, 3, 3, 5}, {1, 1, 1, 0, 0}, {2, 2, 1, 0, 0}, {4, 4, 1, 0, 0}, {5, 5, 1, 0, 0}, {6, 6, 1, 0, 0}, {7, 7, 1, 0, 0}}},
		"longer than that": {"ab", "abcd", 2, []uint32{0}, []uint32{0, none, none}, []timeline.Places{{Count: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := timeline.NewRuns([]rune(test.values), test.length)
			if !slices.Equal(r.At, test.at) {
				t.Errorf("numbers %v, want %v", r.At, test.at)
			}
			if got := r.In([]rune(test.other)); !slices.Equal(got, test.in) {
				t.Errorf("in %q: %v, want %v", test.other, got, test.in)
			}
			if got := timeline.PlacesOf(r.At, r.Len()); !slices.Equal(got, test.places) {
				t.Errorf("places %v, want %v", got, test.places)
			}
		})
	}
}

// sequence is made of few values, and of parts of itself, so that much comes back.
func sequence(r *rand.Rand, n int) []int64 {
	var out []int64
	for len(out) < n {
		if k := len(out); k > 4 && r.IntN(3) == 0 {
			from := r.IntN(k)
			out = append(out, out[from:min(k, from+1+r.IntN(20))]...)
		} else {
			out = append(out, r.Int64N(4)<<(62*r.IntN(2)))
		}
	}
	return out[:n]
}

// Whatever the sequence: runs have one number exactly if all of their values are equal.
func TestRunsAreThoseOfANaiveSearch(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		values, other := sequence(r, r.IntN(200)), sequence(r, r.IntN(60))
		length := 1 + r.IntN(7)
		numbers := map[string]uint32{}
		name := func(values []int64, k int) string { return fmt.Sprint(values[k : k+length]) }
		var want []uint32
		var places []timeline.Places
		for k := 0; k+length <= len(values); k++ {
			number, ok := numbers[name(values, k)]
			if !ok {
				number = uint32(len(numbers))
				numbers[name(values, k)] = number
				places = append(places, timeline.Places{First: k})
			}
			want = append(want, number)
			p := &places[number]
			if p.Count++; p.Count > 1 {
				p.Widest = max(p.Widest, k-p.Last)
				if p.Narrowest == 0 || k-p.Last < p.Narrowest {
					p.Narrowest = k - p.Last
				}
			}
			p.Last = k
		}
		runs := timeline.NewRuns(values, length)
		if !slices.Equal(runs.At, want) || runs.Len() != len(numbers) {
			t.Fatalf("seed %d: runs of %d in %v: %v, want %v", seed, length, values, runs.At, want)
		}
		if got := timeline.PlacesOf(runs.At, runs.Len()); !slices.Equal(got, places) {
			t.Fatalf("seed %d: places %v, want %v", seed, got, places)
		}
		for k, number := range runs.In(other) {
			if want, ok := numbers[name(other, k)]; ok != (number != timeline.NoRun) || ok && number != want {
				t.Fatalf("seed %d: run %d of %v is %d, want %d %v", seed, k, other, number, want, ok)
			}
		}
	}
}

func TestHeaviestRepeat(t *testing.T) {
	for name, test := range map[string]struct {
		values   string
		from, to int
		want     timeline.Repeat
	}{
		"nothing":              {"", 0, 0, timeline.Repeat{}},
		"nothing comes back":   {"abcd", 0, 4, timeline.Repeat{}},
		"not in a row":         {"axbxxa", 0, 2, timeline.Repeat{}},
		"layers":               {"xabcabcabcy", 0, 11, timeline.Repeat{From: 1, Period: 3, Count: 3}},
		"the last is cut off":  {"xabcabcab", 0, 9, timeline.Repeat{From: 1, Period: 3, Count: 2}},
		"the heavier of two":   {"ababzzzzz", 0, 9, timeline.Repeat{From: 4, Period: 1, Count: 5}},
		"in a part":            {"ababzzzzz", 0, 4, timeline.Repeat{From: 0, Period: 2, Count: 2}},
		"the rest of the part": {"zzzzzabab", 5, 9, timeline.Repeat{From: 5, Period: 2, Count: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			runs := timeline.NewRuns([]rune(test.values), 1)
			got, weight := timeline.HeaviestRepeat(runs.At, sums(test.values), test.from, test.to)
			if got != test.want || (weight == 0) != (got.Count == 0) {
				t.Errorf("%+v weighs %d, want %+v", got, weight, test.want)
			}
		})
	}
}

// sums counts each value as one.
func sums[T string | []int64](values T) []int64 {
	out := make([]int64, len(values)+1)
	for k := range out {
		out[k] = int64(k)
	}
	return out
}

// Of all parts that come several times in a row none is heavier than what is found,
// where so few periods are possible that all are tried.
func TestHeaviestRepeatIsThatOfANaiveSearch(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 6))
		values := sequence(r, r.IntN(9))
		var best int64
		for period := 1; period <= len(values); period++ {
			for from := range values {
				end := from + period
				for end < len(values) && values[end] == values[end-period] {
					end++
				}
				if count := (end - from) / period; count > 1 {
					best = max(best, int64(count*period))
				}
			}
		}
		got, weight := timeline.HeaviestRepeat(timeline.NewRuns(values, 1).At, sums(values), 0, len(values))
		if weight != best {
			t.Fatalf("seed %d: %+v of %v weighs %d, want %d", seed, got, values, weight, best)
		}
		for k := got.From; k+got.Period < got.End(); k++ {
			if values[k] != values[k+got.Period] {
				t.Fatalf("seed %d: %+v of %v doesn't repeat", seed, got, values)
			}
		}
	}
}

func BenchmarkRuns(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	one := make([]int64, 5000)
	for i := range one {
		one[i] = r.Int64N(100) << 20
	}
	var loop, wild []int64
	for range 200 {
		loop = append(loop, one...)
	}
	for range loop {
		wild = append(wild, r.Int64())
	}
	for name, values := range map[string][]int64{"loop": loop, "wild": wild} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				timeline.NewRuns(values, 5)
			}
		})
	}
}
