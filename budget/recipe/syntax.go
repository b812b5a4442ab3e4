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
	"mvdan.cc/sh/v3/syntax"

	"github.com/vramscope/vramscope/internal/limit"
	"github.com/vramscope/vramscope/internal/pattern"
)

type reader func(text []byte) (*fields, error)

// Place is a file, and the function of Python settings that stands behind its name, as in FILE.py::llama3_8b.
func Place(name string) (file, function string) {
	if file, function, ok := strings.Cut(name, ".py::"); ok {
		return file + ".py", function
	}
	return name, ""
}

// syntaxes are the readers for a file: by its name's end, or by its beginning.
func syntaxes(name string, text []byte) []reader {
	name, function := Place(name)
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml":
		return []reader{readYAML, readContainers, underscored(readContainers)}
	case ".py":
		return []reader{readPython(function)}
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
	var script []string
	for _, part := range []string{"entrypoint", "command", "args"} {
		script = append(script, commandText(parts[part])...)
	}
	words := strings.Fields(strings.Join(script, " "))
	if len(words) > 0 && strings.Contains(image, "vllm") && !slices.Contains(words, "vllm") {
		if !strings.HasPrefix(words[0], "-") && words[0] != "serve" {
			script = append([]string{"serve"}, script...)
		}
		script = append([]string{"vllm"}, script...)
	}
	return a.script(kubernetesVariable.ReplaceAllString(strings.Join(script, " "), "${$1}"), 0)
}

// commandText is a command as a shell would be given it: one text, or a list some of whose
// entries are texts of their own.
func commandText(n *yaml.Node) (texts []string) {
	switch {
	case n == nil:
	case n.Kind == yaml.ScalarNode:
		return []string{n.Value}
	default:
		for _, x := range n.Content {
			text, err := x.Value, error(nil)
			if !strings.ContainsAny(text, " \n$") {
				text, err = syntax.Quote(text, syntax.LangBash)
			}
			if x.Value != "" && err == nil {
				texts = append(texts, text)
			}
		}
	}
	return texts
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
		f := &fields{program: dashed.program}
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

// command notes the words that tell whose command it is, and the model that some take
// without a name.
func (f *fields) command(word string) {
	name, value, hydra := strings.Cut(strings.TrimLeft(word, "+"), "=")
	switch {
	case hydra && strings.Contains(name, "."): // Hydra's
		_ = f.add(below("", name), strings.Trim(value, `'"`))
	case word == "serve" && f.has("vllm"):
		f.values["vllm"] = word
	case f.values["vllm"] == "serve" && f.values["model"] == "":
		_ = f.add("model", word)
	case path.Base(word) == "vllm":
		_ = f.add("vllm", "true")
	case path.Base(word) == "sglang" || strings.HasPrefix(word, "sglang."):
		_ = f.add("sglang", "true")
	case path.Base(word) == "trl":
		_ = f.add("trl", "true")
	case f.values["trl"] == "true":
		f.values["trl"] = word
	case loraScript().MatchString(word): // diffusers'
		_ = f.add("lora_script", "true")
	case strings.Contains(word, "trl/scripts/"):
		_ = f.add("trl", strings.TrimSuffix(path.Base(word), ".py"))
	}
}

func isNumber(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil
}

// loraScript tells the scripts of diffusers that train adapters.
var loraScript = pattern.Of(`(^|/)train_[^/]*_lora[_.][^/]*$`)
