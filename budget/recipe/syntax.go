package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
)

type reader func(text []byte) (*fields, error)

// syntaxes are the readers for a file: by its name's end, or by its beginning.
func syntaxes(name string, text []byte) []reader {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml":
		return []reader{readYAML}
	case ".toml":
		return []reader{readTOML}
	case ".json":
		return []reader{readJSON}
	case ".sh":
		return []reader{readArguments}
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return []reader{readJSON}
	}
	return []reader{readArguments, readTOML, readYAML}
}

// readYAML reads the first document. Aliases are followed as often as they stand there,
// within the bound on fields.
func readYAML(text []byte) (*fields, error) {
	var doc yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc)
	if err == io.EOF {
		return &fields{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	w := yamlWalk{fields: &fields{}, left: maxFields}
	if err := w.node("", &doc, 0); err != nil {
		return nil, err
	}
	return w.fields, nil
}

// yamlWalk lists a document's fields; left is how many nodes may still be looked at.
type yamlWalk struct {
	*fields
	left int
}

func (w *yamlWalk) node(name string, n *yaml.Node, depth int) error {
	if w.left--; w.left < 0 {
		return errMany
	}
	if depth > maxDepth {
		return fmt.Errorf("line %d: %w", n.Line, errDeep)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.node(name, n.Alias, depth+1)
	case yaml.ScalarNode:
		return w.add(name, n.Value)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Tag == "!!merge" {
				if err := w.node(name, n.Content[i+1], depth+1); err != nil {
					return err
				}
				continue
			}
			if err := w.node(below(name, key.Value), n.Content[i+1], depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return w.list(name, n, depth)
}

// list is a field whose value is its words with commas, and a field for each thing in it
// that is no word.
func (w *yamlWalk) list(name string, n *yaml.Node, depth int) error {
	var words []string
	for i, x := range n.Content {
		if n.Kind == yaml.SequenceNode && x.Kind == yaml.ScalarNode {
			words = append(words, x.Value)
			continue
		}
		at := name
		if n.Kind == yaml.SequenceNode {
			at = fmt.Sprintf("%s[%d]", name, i)
		}
		if err := w.node(at, x, depth+1); err != nil {
			return err
		}
	}
	if len(words) == 0 {
		return nil
	}
	if w.left -= len(words); w.left < 0 {
		return errMany
	}
	return w.add(name, strings.Join(words, ","))
}

// below is the name of a field in another.
func below(name, key string) string {
	if len(key) > 200 {
		key = key[:200]
	}
	if name == "" {
		return key
	}
	return name + "." + key
}

// readTOML reads a file whose brackets don't lie deep in one another: the parser calls
// itself for each.
func readTOML(text []byte) (*fields, error) {
	depth, deepest := 0, 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '\n':
			if depth < 0 {
				depth = 0
			}
		}
		deepest = max(deepest, depth)
	}
	if deepest > maxDepth {
		return nil, errDeep
	}
	var all map[string]any
	meta, err := toml.Decode(string(text), &all)
	if err != nil {
		return nil, fmt.Errorf("no TOML: %s", strings.TrimPrefix(firstLine(err.Error()), "toml: "))
	}
	f := &fields{}
	for _, key := range meta.Keys() {
		if len(key) > maxDepth {
			return nil, errDeep
		}
		var v any = all
		for _, k := range key {
			m, _ := v.(map[string]any)
			v = m[k]
		}
		if word, ok := wordOf(v); ok {
			if err := f.add(strings.Join(key, "."), word); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// wordOf is a value as a word, or a list of words with commas between them.
func wordOf(v any) (string, bool) {
	switch v := v.(type) {
	case nil, map[string]any, []map[string]any:
		return "", false
	case []any:
		var words []string
		for _, x := range v {
			if w, ok := wordOf(x); ok && !strings.Contains(w, ",") {
				words = append(words, w)
			}
		}
		return strings.Join(words, ","), len(words) > 0
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return fmt.Sprint(v), true
}

// readJSON reads an object, in the order in which it is written.
func readJSON(text []byte) (*fields, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	f := &fields{}
	if err := f.json(d, "", 0); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("offset %d: no JSON: %w", d.InputOffset(), err)
	}
	return f, nil
}

// json reads one value. Of a list the words count, and the objects that it holds.
func (f *fields) json(d *json.Decoder, name string, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return errDeep
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return f.jsonList(d, name, depth)
		}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			k, _ := key.(string)
			if err := f.json(d, below(name, k), depth+1); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	case nil:
		return f.add(name, "null")
	default:
		return f.add(name, fmt.Sprint(t))
	}
}

func (f *fields) jsonList(d *json.Decoder, name string, depth int) error {
	for i := 0; d.More(); i++ {
		before := len(f.names)
		at := fmt.Sprintf("%s[%d]", name, i)
		if err := f.json(d, at, depth+1); err != nil {
			return err
		}
		if word, ok := f.values[at]; ok && len(f.names) == before+1 { // a word: it belongs to the list
			f.names = f.names[:before]
			delete(f.values, at)
			if list := f.values[name]; list != "" {
				word = list + "," + word
			}
			if i >= maxFields {
				return errMany
			}
			if err := f.add(name, word); err != nil {
				return err
			}
		}
	}
	_, err := d.Token()
	return err
}

// readArguments reads a command, or a shell script that holds one: words that begin with
// dashes are fields, variables are what the script itself sets them to. Nothing is run.
func readArguments(text []byte) (*fields, error) {
	a := arguments{fields: &fields{}, vars: map[string]string{}, begins: true}
	if err := a.words(shellWords(string(text)), 0); err != nil {
		return nil, err
	}
	return a.fields, a.value("true")
}

// arguments are those of a script's commands, so far.
type arguments struct {
	*fields
	vars   map[string]string
	name   string // the option that waits for its value
	begins bool   // the next word is a command's first
}

// value gives the option that waits one, if one does.
func (a *arguments) value(v string) error {
	if a.name == "" {
		return nil
	}
	name := a.name
	a.name = ""
	return a.add(name, v)
}

func (a *arguments) words(words []string, depth int) error {
	for _, word := range words {
		if err := a.word(word, depth); err != nil {
			return err
		}
	}
	return nil
}

// word takes one in. A variable may hold arguments: they are read where it is set.
func (a *arguments) word(word string, depth int) error {
	if word == "\n" {
		a.begins = true
		return a.value("true")
	}
	if name, value, ok := assignment(word); ok && a.begins {
		a.vars[name] = expanded(value, a.vars)
		if depth > 0 || !strings.Contains(value, "--") {
			return nil
		}
		if err := a.words(shellWords(value), 1); err != nil {
			return err
		}
		a.begins = true
		return a.value("true")
	}
	a.begins = slices.Contains([]string{"export", "local", "readonly"}, word)
	if word = expanded(word, a.vars); !strings.HasPrefix(word, "-") || isNumber(word) {
		if a.name == "" && len(a.names) < maxFields {
			a.command(word)
			return nil
		}
		return a.value(word)
	}
	if err := a.value("true"); err != nil {
		return err
	}
	option, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if o, v, both := strings.Cut(option, " "); both { // "--name value" in quotes
		option, value, given = o, strings.Trim(v, `'" `), true
	}
	if a.name = below("", strings.ReplaceAll(option, "_", "-")); given {
		return a.value(value)
	}
	return nil
}

// command notes the words that tell whose command it is, and the model that some take
// without a name.
func (f *fields) command(word string) {
	switch {
	case word == "serve" && f.has("vllm"):
		f.values["vllm"] = word
	case f.values["vllm"] == "serve" && f.values["model"] == "":
		_ = f.add("model", word)
	case path.Base(word) == "vllm":
		_ = f.add("vllm", "true")
	}
}

func isNumber(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil
}

// assignment is a word of the form NAME=VALUE.
func assignment(word string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(word, "=")
	for i, c := range name {
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return "", "", false
		}
	}
	return name, value, ok && name != ""
}

// expanded puts in the place of $NAME, ${NAME} and ${NAME:-VALUE} what is known of them;
// what isn't stays as it stands there. A product $((A*B)) is worked out.
func expanded(word string, vars map[string]string) string {
	if !strings.Contains(word, "$") {
		return word
	}
	var out strings.Builder
	for i := 0; i < len(word) && out.Len() < maxText; {
		if word[i] != '$' {
			out.WriteByte(word[i])
			i++
			continue
		}
		value, n := variable(word[i:], vars)
		out.WriteString(value)
		i += n
	}
	s := out.String()
	return s[:min(len(s), maxText)]
}

// variable is what stands at the beginning of a text, and how long that is.
func variable(s string, vars map[string]string) (value string, n int) {
	name, other, n := "", "", 1
	switch {
	case strings.HasPrefix(s, "$(("):
		end := strings.Index(s, "))")
		if end < 0 {
			return s, len(s)
		}
		return product(s[3:end], vars), end + 2
	case strings.HasPrefix(s, "${"):
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return s, len(s)
		}
		name, other, _ = strings.Cut(s[2:end], ":-")
		n = end + 1
		other = strings.TrimPrefix(other, "$")
		if v, ok := vars[other]; ok {
			other = v
		}
	default:
		for n < len(s) && (s[n] == '_' || '0' <= s[n] && s[n] <= '9' || 'a' <= s[n]|0x20 && s[n]|0x20 <= 'z') {
			n++
		}
		name = s[1:n]
	}
	name = strings.TrimSuffix(name, "[@]")
	if v, ok := vars[name]; ok && v != "" {
		return v, n
	}
	if other != "" {
		return other, n
	}
	return s[:n], n
}

// product works out numbers with stars between them, "" where there is anything else.
func product(s string, vars map[string]string) string {
	p := int64(1)
	for _, word := range strings.Split(s, "*") {
		word = strings.Trim(strings.TrimSpace(word), "${}")
		if v, ok := vars[word]; ok {
			word = v
		}
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil || n < 0 || p > 1<<31 {
			return ""
		}
		p *= n
	}
	return strconv.FormatInt(p, 10)
}

// shellWords are a script's words, and "\n" for the end of a command. Comments are left
// out, quotes are taken off, parentheses of lists are spaces.
//
// complexity: one case for each thing that a shell treats in its own way
func shellWords(s string) (words []string) {
	var word []byte
	started := false
	flush := func() {
		if started && len(words) < maxFields {
			words = append(words, string(word))
		}
		word, started = word[:0], false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' && s[i] != '\r' {
				word, started = append(word, s[i]), true
			}
		case c == '\'' || c == '"':
			end := strings.IndexByte(s[i+1:], c)
			if end < 0 {
				end = len(s) - i - 1
			}
			word, started = append(word, s[i+1:i+1+end]...), true
			i += end + 1
		case c == '#' && !started:
			for i+1 < len(s) && s[i+1] != '\n' {
				i++
			}
		case c == '$' && strings.HasPrefix(s[i:], "$(("):
			end := strings.Index(s[i:], "))")
			if end < 0 {
				return words
			}
			word, started = append(word, s[i:i+end+2]...), true
			i += end + 1
		case c == '\n' || c == ';' || c == '&' || c == '|':
			flush()
			words = append(words, "\n")
		case c == ' ' || c == '\t' || c == '\r' || c == '(' || c == ')':
			flush()
		default:
			word, started = append(word, c), true
		}
	}
	flush()
	return words
}
