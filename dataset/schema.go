package dataset

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// What Parquet calls the columns of a table. The library that says so of any
// Arrow schema, pqarrow, brings its RPC protocol and its query functions along:
// half of the program, and most of the time that it takes to start.

// arrowKey is the metadata that holds the Arrow schema, which keeps
// dictionaries, units and meanings.
const arrowKey = "ARROW:schema"

// parquetSchema is an Arrow schema as Parquet has it.
func parquetSchema(s *arrow.Schema) (*schema.Schema, error) {
	columns, err := nodes(s.Fields())
	if err != nil {
		return nil, err
	}
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Repeated, columns, -1)
	if err != nil {
		return nil, err
	}
	return schema.NewSchema(root), nil
}

func nodes(fields []arrow.Field) (schema.FieldList, error) {
	var list schema.FieldList
	for _, f := range fields {
		n, err := node(f.Name, f.Type, f.Nullable)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func node(name string, t arrow.DataType, null bool) (schema.Node, error) {
	repetition := parquet.Repetitions.Required
	if null {
		repetition = parquet.Repetitions.Optional
	}
	leaf := func(physical parquet.Type, logical schema.LogicalType) (schema.Node, error) {
		return schema.NewPrimitiveNodeLogical(name, repetition, logical, physical, -1, -1)
	}
	switch t := t.(type) {
	case *arrow.BooleanType:
		return leaf(parquet.Types.Boolean, schema.NoLogicalType{})
	case *arrow.Int32Type:
		return leaf(parquet.Types.Int32, schema.NewIntLogicalType(32, true))
	case *arrow.Uint32Type:
		return leaf(parquet.Types.Int32, schema.NewIntLogicalType(32, false))
	case *arrow.Int64Type:
		return leaf(parquet.Types.Int64, schema.NewIntLogicalType(64, true))
	case *arrow.Uint64Type:
		return leaf(parquet.Types.Int64, schema.NewIntLogicalType(64, false))
	case *arrow.Float64Type:
		return leaf(parquet.Types.Double, schema.NoLogicalType{})
	case *arrow.StringType:
		return leaf(parquet.Types.ByteArray, schema.StringLogicalType{})
	case *arrow.DictionaryType: // a matter of pages, not of the schema
		return node(name, t.ValueType, null)
	case *arrow.StructType:
		fields, err := nodes(t.Fields())
		if err != nil {
			return nil, err
		}
		return schema.NewGroupNode(name, repetition, fields, -1)
	case *arrow.ListType:
		if null {
			return nil, fmt.Errorf("dataset: %s: a list that may be unknown", name)
		}
		element, err := node(name, t.Elem(), true)
		if err != nil {
			return nil, err
		}
		return schema.ListOf(element, repetition, -1)
	}
	return nil, fmt.Errorf("dataset: Parquet has no %s here", t)
}

// keysOf is a schema's metadata, and the schema itself.
func keysOf(s *arrow.Schema) (metadata.KeyValueMetadata, error) {
	keys := metadata.NewKeyValueMetadata()
	for i, k := range s.Metadata().Keys() {
		if err := keys.Append(k, s.Metadata().Values()[i]); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	if err := ipc.NewWriter(&b, ipc.WithSchema(s)).Close(); err != nil {
		return nil, err
	}
	err := keys.Append(arrowKey, base64.StdEncoding.EncodeToString(b.Bytes()))
	return keys, err
}
