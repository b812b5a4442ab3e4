package classify

// Site is a line of the user's program with the bytes that it keeps alive.
type Site struct {
	File     string
	Line     int
	Function string
	Bytes    int64
}

// Leak is memory that a program keeps beyond its use.
type Leak struct {
	Kind      string // a word of the report schema
	Defect    bool
	Suspected bool
	Site      // the best guess at the line that keeps it; File is empty when no stack shows any

	Sites        []Site
	Category     Category
	BytesPerStep int64
	Steps        int
	TotalBytes   int64
	Confidence   float64
}
