package dataset

import "github.com/apache/arrow/go/v15/arrow"

// Table says what a table's columns are. Everything that writes the table takes
// names, types and meaning from here.
type Table struct {
	Name    string // of --table, and of the file in a folder of tables
	Version string // the schema's name and number; columns keep their meaning within a number
	Doc     string // what a row is
	Columns []Column

	rows func(s *source, add func(row any)) // makes those of a run; nil: the table isn't made from reports
}

// Column is one column of a table.
type Column struct {
	Name string
	Type arrow.DataType
	Unit string // "bytes", "us"; "" for what has none
	Doc  string // what the value means, and when it is null
	Null bool   // the value may be unknown

	value func(row any) any // takes it out of a row; nil where whole columns are made
}

// of gives a column what takes its value out of a row of its table: a number, a text,
// a pointer to one, nil for what is unknown, or a list. A text that may be unknown is
// so when it is empty.
func of[Row any](c Column, value func(*Row) any) Column {
	c.value = func(row any) any { return value(row.(*Row)) }
	return c
}

// owner is whose row it is.
type owner struct {
	run          string
	device, rank *int
}

func (o *owner) who() *owner { return o }

func ofOwner(c Column, value func(*owner) any) Column {
	c.value = func(row any) any { return value(row.(interface{ who() *owner }).who()) }
	return c
}

// Keys of the metadata that schemas and fields carry.
const (
	schemaKey = "vramscope.schema"
	docKey    = "doc"
	unitKey   = "unit"
)

// Schema is the table's Arrow schema. Its metadata holds the schema's version
// and each field's unit and meaning.
func (t *Table) Schema() *arrow.Schema {
	fields := make([]arrow.Field, len(t.Columns))
	for i, c := range t.Columns {
		keys, values := []string{docKey}, []string{c.Doc}
		if c.Unit != "" {
			keys, values = append(keys, unitKey), append(values, c.Unit)
		}
		fields[i] = arrow.Field{Name: c.Name, Type: c.Type, Nullable: c.Null, Metadata: arrow.NewMetadata(keys, values)}
	}
	return arrow.NewSchema(fields, new(arrow.NewMetadata([]string{schemaKey, docKey}, []string{t.Version, t.Doc})))
}

// The types of columns. Texts that recur are dictionaries.
var (
	boolean = arrow.FixedWidthTypes.Boolean
	int32s  = arrow.PrimitiveTypes.Int32
	int64s  = arrow.PrimitiveTypes.Int64
	uint32s = arrow.PrimitiveTypes.Uint32
	uint64s = arrow.PrimitiveTypes.Uint64
	float   = arrow.PrimitiveTypes.Float64
	text    = arrow.BinaryTypes.String
	words   = dictionary(arrow.PrimitiveTypes.Int32)
	codes   = dictionary(arrow.PrimitiveTypes.Uint8)  // words whose numbers are in memory as they are
	numbers = dictionary(arrow.PrimitiveTypes.Uint32) // the same for more of them
)

func dictionary(index arrow.DataType) *arrow.DictionaryType {
	return &arrow.DictionaryType{IndexType: index, ValueType: arrow.BinaryTypes.String}
}

// listOf is a list. Parquet files say that elements may be null; none is.
func listOf(t arrow.DataType) arrow.DataType {
	return arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: true})
}

// required and optional are the fields of structures.
func required(name string, t arrow.DataType) arrow.Field { return arrow.Field{Name: name, Type: t} }
func optional(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// Columns of the usual kinds; those ending in OrNull may be unknown.

func bytesColumn(name, doc string) Column {
	return Column{Name: name, Type: int64s, Unit: "bytes", Doc: doc}
}

func bytesOrNull(name, doc string) Column {
	return Column{Name: name, Type: int64s, Unit: "bytes", Doc: doc, Null: true}
}

func wordColumn(name, doc string) Column { return Column{Name: name, Type: words, Doc: doc} }

func wordOrNull(name, doc string) Column {
	return Column{Name: name, Type: words, Doc: doc, Null: true}
}

func countColumn(name, doc string) Column { return Column{Name: name, Type: int64s, Doc: doc} }

func countOrNull(name, doc string) Column {
	return Column{Name: name, Type: int64s, Doc: doc, Null: true}
}

func timeOrNull(name, doc string) Column {
	return Column{Name: name, Type: int64s, Unit: "us", Doc: doc, Null: true}
}
