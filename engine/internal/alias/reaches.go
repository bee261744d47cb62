package alias

// Reaches reports whether an item put to an alias can come to target.
func Reaches(aliases map[string][]string, from, target string) bool {
	return reaches(aliases, from, target, make(map[string]bool))
}

// reaches is Reaches; the aliases in seen need not be followed again.
func reaches(aliases map[string][]string, from, target string, seen map[string]bool) bool {
	seen[from] = true
	for _, next := range aliases[from] {
		if next == target || !seen[next] && reaches(aliases, next, target, seen) {
			return true
		}
	}
	return false
}
