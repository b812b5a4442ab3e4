package evidence

import "testing"

// TestSeriesKeepsPeaks thins a long curve again and again.
func TestSeriesKeepsPeaks(t *testing.T) {
	var s Series
	for i := 0; i < 100_000; i++ {
		used := int64(i % 1000)
		if i == 70_001 {
			used = 5000
		}
		s.Add(Sample{UsedBytes: used})
	}
	peak := int64(0)
	for _, v := range s.Samples {
		peak = max(peak, v.UsedBytes)
	}
	if peak != 5000 || len(s.Samples) > 2*seriesPoints || s.Every*len(s.Samples) < 100_000-s.Every {
		t.Errorf("peak %d, %d samples of %d readings each", peak, len(s.Samples), s.Every)
	}
}

// TestSeriesKeepsLast: of an odd number of samples the last has no neighbour.
func TestSeriesKeepsLast(t *testing.T) {
	long := Series{Samples: make([]Sample, 2*seriesPoints), Every: 1}
	long.Append(&Series{Samples: []Sample{{UsedBytes: 5000}}, Every: 1})
	if n := len(long.Samples); n != seriesPoints+1 || long.Samples[n-1].UsedBytes != 5000 {
		t.Errorf("%d samples, the last %+v", n, long.Samples[n-1])
	}
}
