package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"github.com/vramscope/vramscope/internal/limit"
)

type reader func(text []byte) (*fields, error)

// syntaxes are the readers for a file: by its name's end, or by its beginning.
func syntaxes(name string, text []byte) []reader {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml":
		return []reader{readYAML, readContainers, underscored(readContainers)}
	case ".toml":
		return []reader{readTOML}
	case ".json":
		return []reader{readJSON}
	case ".sh":
		return []reader{readArguments, underscored(readArguments)}
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return []reader{readJSON}
	}
	return []reader{readArguments, underscored(readArguments), readTOML, readYAML}
}

// readYAML reads the first document. Aliases are followed as often as they stand there,
// within the bound on fields.
func readYAML(text []byte) (*fields, error) {
	if err := limit.Check(limit.YAML, text); err != nil {
		return nil, err
	}
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
	w.interpolate()
	return w.fields, nil
}

// interpolate puts other fields' values in the place of ${name}, as OmegaConf does. One
// that stands for another is followed once more.
func (f *fields) interpolate() {
	for range 2 {
		for name, v := range f.values {
			if inner, ok := strings.CutPrefix(v, "${"); ok {
				if to, ok := f.values[strings.TrimSuffix(inner, "}")]; ok && strings.HasSuffix(v, "}") {
					f.values[name] = to
				}
			}
		}
	}
}

// readContainers reads the commands of containers: of a Kubernetes manifest's, or of
// Docker Compose's services. An image of an engine stands for the command that it begins with.
func readContainers(text []byte) (*fields, error) {
	a := arguments{fields: &fields{}, vars: map[string]string{}}
	if !bytes.Contains(text, []byte("image")) {
		return a.fields, nil
	}
	if err := limit.Check(limit.YAML, text); err != nil {
		return nil, err
	}
	left := maxFields
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		if err := d.Decode(&doc); err != nil {
			break // the YAML's own error is told by its reader
		}
		if err := a.containers(&doc, &left, 0); err != nil {
			return nil, err
		}
	}
	return a.fields, nil
}

// containers goes through a document; left is how many nodes may still be looked at.
func (a *arguments) containers(n *yaml.Node, left *int, depth int) error {
	if *left--; *left < 0 {
		return errMany
	}
	if depth > maxDepth {
		return fmt.Errorf("line %d: %w", n.Line, errDeep)
	}
	parts := map[string]*yaml.Node{}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		parts[n.Content[i].Value] = n.Content[i+1]
	}
	if image := parts["image"]; image != nil && (parts["command"] != nil || parts["args"] != nil) {
		return a.container(image.Value, parts)
	}
	for _, x := range n.Content {
		if err := a.containers(x, left, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (a *arguments) container(image string, parts map[string]*yaml.Node) error {
	if env := parts["env"]; env != nil {
		for _, x := range env.Content {
			if x.Kind == yaml.MappingNode && len(x.Content) >= 4 && x.Content[0].Value == "name" {
				a.vars[x.Content[1].Value] = x.Content[3].Value
			}
		}
	}
	var words []string
	for _, part := range []string{"entrypoint", "command", "args"} {
		words = append(words, commandWords(parts[part])...)
	}
	if len(words) > 0 && strings.Contains(image, "vllm") && !slices.Contains(words, "vllm") {
		if !strings.HasPrefix(words[0], "-") && words[0] != "serve" {
			words = append([]string{"serve"}, words...)
		}
		words = append([]string{"vllm"}, words...)
	}
	a.begins = true
	for i, w := range words {
		words[i] = kubernetesVariable.ReplaceAllString(w, "${$1}")
	}
	if err := a.words(append(words, "\n"), 0); err != nil {
		return err
	}
	return nil
}

// commandWords are a command's: of one text, or a list of words some of which a shell is to read.
func commandWords(n *yaml.Node) (words []string) {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		return shellWords(n.Value)
	}
	for _, x := range n.Content {
		if strings.ContainsAny(x.Value, " \n") {
			words = append(words, shellWords(x.Value)...)
		} else if x.Value != "" {
			words = append(words, x.Value)
		}
	}
	return words
}

// kubernetesVariable is how manifests write variables.
var kubernetesVariable = regexp.MustCompile(`\$\((\w+)\)`)

// underscored reads options under the names that Python's programs have for them.
func underscored(read reader) reader {
	return func(text []byte) (*fields, error) {
		dashed, err := read(text)
		if err != nil {
			return nil, err
		}
		f := &fields{}
		for _, name := range dashed.names {
			if err := f.add(strings.ReplaceAll(name, "-", "_"), dashed.values[name]); err != nil {
				return nil, err
			}
		}
		return f, nil
	}
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

func readTOML(text []byte) (*fields, error) {
	if err := limit.Check(limit.TOML, text); err != nil {
		return nil, err
	}
	var all map[string]any
	meta, err := toml.Decode(string(text), &all)
	if err != nil {
		return nil, fmt.Errorf("no TOML: %s", strings.TrimPrefix(firstLine(err.Error()), "toml: "))
	}
	f := &fields{}
	for _, key := range meta.Keys() {
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
	if err := limit.Check(limit.Recipe, text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	f := &fields{}
	if err := f.json(d, ""); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("offset %d: no JSON: %w", d.InputOffset(), err)
	}
	return f, nil
}

// json reads one value. Of a list the words count, and the objects that it holds.
func (f *fields) json(d *json.Decoder, name string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return f.jsonList(d, name)
		}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			k, _ := key.(string)
			if err := f.json(d, below(name, k)); err != nil {
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

func (f *fields) jsonList(d *json.Decoder, name string) error {
	for i := 0; d.More(); i++ {
		before := len(f.names)
		at := fmt.Sprintf("%s[%d]", name, i)
		if err := f.json(d, at); err != nil {
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
	if err := a.value("true"); err != nil {
		return nil, err
	}
	if n := a.vars["NPROC_PER_NODE"]; n != "" && !a.has("nproc-per-node") { // ms-swift takes it from there
		return a.fields, a.add("nproc-per-node", n)
	}
	return a.fields, nil
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
	case path.Base(word) == "trl":
		_ = f.add("trl", "true")
	case f.values["trl"] == "true":
		f.values["trl"] = word
	case strings.Contains(word, "trl/scripts/"):
		_ = f.add("trl", strings.TrimSuffix(path.Base(word), ".py"))
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
