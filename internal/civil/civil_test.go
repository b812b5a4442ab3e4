package civil

import (
	"testing"
	"time"
)

func TestDays(t *testing.T) {
	for day := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2200; day = day.AddDate(0, 0, 13) {
		if got := Days(int64(day.Year()), int64(day.Month()), int64(day.Day())); got != day.Unix()/86400 {
			t.Fatalf("%v is day %d, want %d", day, got, day.Unix()/86400)
		}
	}
}
