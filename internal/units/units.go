// Package units writes sizes, counts and shares for people, and reads the
// sizes that people write.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// Bytes writes a size for people: GiB, MiB or KiB with two decimals.
func Bytes(n int64) string {
	switch abs := Abs(n); {
	case abs >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case abs >= 1<<20:
		return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
	case abs >= 1<<10:
		return fmt.Sprintf("%.2f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// Abs is a number without its sign.
func Abs[N int | int64](n N) N { return max(n, -n) }

// IsDigit tells the ten that numbers are written with.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }

// Count writes a number with commas between thousands.
func Count(n int) string {
	s := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural is a number with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") {
		noun = noun[:len(noun)-1] + "ie"
	}
	return Count(n) + " " + noun + "s"
}

// Percent is a share of a whole, "" when there is none.
func Percent(part, whole int64) string {
	if whole <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// Signed is a difference with its sign.
func Signed(n int64) string {
	if n > 0 {
		return "+" + Bytes(n)
	}
	return Bytes(n)
}

// MostMemory says which kind of memory a log's largest figures are of; named says
// that the log calls the first one allocated, printed how it wrote it where that isn't
// sure to be the same.
func MostMemory(most, reserved *int64, named bool, printed string) string {
	if printed != "" {
		return MostMemory(most, reserved, named, "") + " (printed as " + printed + ")"
	}
	switch {
	case reserved != nil && *most != *reserved:
		return fmt.Sprintf("%s of GPU memory reserved, %s allocated", Bytes(*reserved), Bytes(*most))
	case reserved != nil:
		return Bytes(*most) + " of GPU memory reserved"
	case named:
		return Bytes(*most) + " of GPU memory allocated"
	}
	return Bytes(*most) + " of GPU memory"
}

// Duration is a time for people.
func Duration(seconds float64) string {
	switch {
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	case seconds < 120:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.1f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

// Times says how often.
func Times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return Count(n) + " times"
}

// Size writes a size in a sentence: three significant digits, of what Bytes writes, so that
// both say the same.
func Size(n int64) string {
	value, unit := float64(max(n, -n)), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 999.5 {
			break
		}
		value, unit = value/1024, next
	}
	hundredths := int64(math.RoundToEven(value * 100)) // as fmt rounds
	switch {
	case hundredths >= 10000:
		hundredths = (hundredths + 50) / 100 * 100
	case hundredths >= 1000:
		hundredths = (hundredths + 5) / 10 * 10
	}
	s := strconv.FormatFloat(float64(hundredths)/100, 'f', -1, 64)
	if n < 0 {
		s = "-" + s
	}
	return s + " " + unit
}

// exact are sizes as Bytes writes them, and shares as Percent does.
var exact = pattern.Of(`\b(\d+)\.(\d\d) (KiB|MiB|GiB)\b|\b(\d+\.\d) %`)

// Rounded is a text with the sizes in it as Size writes them, and whole shares.
func Rounded(text string) string {
	return exact().ReplaceAllStringFunc(text, func(s string) string {
		number, unit, _ := strings.Cut(s, " ")
		x, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil:
			return s
		case unit == "%" && x < 9.95:
			return s
		case unit == "%":
			return fmt.Sprintf("%.0f %%", x)
		}
		return Size(int64(math.Round(x * float64(map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]))))
	})
}

// Fall is what becomes of a size, with its unit once: "101 → 4.77 GiB".
func Fall(before, after int64) string {
	from, to := Size(before), Size(after)
	if number, unit, _ := strings.Cut(from, " "); strings.HasSuffix(to, " "+unit) {
		from = number
	}
	return from + " → " + to
}
