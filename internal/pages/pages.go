package pages

// Make is n zeros in huge pages, where that is worth it.
func Make[T any](n int) []T {
	s := make([]T, n)
	Huge(s)
	return s
}

// Grown is s with room for n more. It doubles what is there where append, which
// copies long slices several times as often, adds a quarter.
func Grown[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s
	}
	more := make([]T, len(s), max(2*len(s), len(s)+n, 64))
	Huge(more)
	copy(more, s)
	return more
}
