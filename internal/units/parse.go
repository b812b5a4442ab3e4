package units

import (
	"fmt"
	"strconv"
	"strings"
)

var shifts = map[string]uint{"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20, "G": 30, "GB": 30,
	"GIB": 30, "T": 40, "TB": 40, "TIB": 40}

// Parse reads "40GiB", "512 MiB", "80gb" or plain bytes, at least one. All
// units are binary, as those on a GPU's box are.
func Parse(s string) (int64, error) {
	text := strings.ToUpper(strings.TrimSpace(s))
	number := strings.TrimRight(text, "KMGTIB")
	shift, ok := shifts[text[len(number):]]
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	f *= float64(int64(1) << shift)
	if err != nil || !ok || !(f >= 1) || f >= 1<<62 {
		return 0, fmt.Errorf("%.40q is no size such as 40GiB", s)
	}
	return int64(f), nil
}
