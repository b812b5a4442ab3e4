package pages

// Make is n zeros in huge pages, where that is worth it.
func Make[T any](n int) []T {
	s := make([]T, n)
	Huge(s)
	return s
}
