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

// reader takes a file's fields, or fails them.
type reader func(f *fields, text []byte)

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
func readYAML(f *fields, text []byte) {
	if f.fail(limit.Check(limit.YAML, text)); f.err != nil {
		return
	}
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil && err != io.EOF {
		f.fail(fmt.Errorf("no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: ")))
	} else if err == nil {
		f.walk(&doc)
		f.interpolate()
	}
}

// interpolate puts other fields' values in the place of ${name}, as OmegaConf does. One
// that stands for another is followed once more.
func (f *fields) interpolate() {
	for range 2 {
		for _, name := range f.names {
			v := f.values[name]
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
func readContainers(f *fields, text []byte) {
	a := arguments{fields: f, vars: map[string]string{}}
	if !bytes.Contains(text, []byte("image")) {
		return
	}
	a.fail(limit.Check(limit.YAML, text))
	left := maxFields
	for d := yaml.NewDecoder(bytes.NewReader(text)); a.err == nil; {
		var doc yaml.Node
		if err := d.Decode(&doc); err != nil {
			break // the YAML's own error is told by its reader
		}
		a.containers(&doc, &left, 0)
	}
}

// containers goes through a document; left is how many nodes may still be looked at.
func (a *arguments) containers(n *yaml.Node, left *int, depth int) {
	if !a.within(n, left, depth) {
		return
	}
	parts := map[string]*yaml.Node{}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		parts[n.Content[i].Value] = n.Content[i+1]
	}
	if image := parts["image"]; image != nil && (parts["command"] != nil || parts["args"] != nil) {
		a.container(image.Value, parts)
		return
	}
	for _, x := range n.Content {
		a.containers(x, left, depth+1)
	}
}

// within says whether a node is one of so many, and not too deep.
func (f *fields) within(n *yaml.Node, left *int, depth int) bool {
	if *left--; *left < 0 {
		f.fail(errMany)
	}
	if depth > maxDepth {
		f.fail(fmt.Errorf("line %d: %w", n.Line, errDeep))
	}
	return f.err == nil
}

func (a *arguments) container(image string, parts map[string]*yaml.Node) {
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
	a.script(kubernetesVariable.ReplaceAllString(strings.Join(script, " "), "${$1}"), 0)
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
	return func(f *fields, text []byte) {
		dashed := &fields{values: map[string]string{}}
		read(dashed, text)
		f.program, f.err = dashed.program, dashed.err
		for _, name := range dashed.names {
			f.add(strings.ReplaceAll(name, "-", "_"), dashed.values[name])
		}
	}
}

// walk lists a document's fields.
func (f *fields) walk(doc *yaml.Node) {
	left := maxFields
	f.node("", doc, &left, 0)
}

// node takes one; left is how many may still be looked at. Of a list the field is its words with commas, and there is a field
// for each thing in it that is no word.
func (f *fields) node(name string, n *yaml.Node, left *int, depth int) {
	if !f.within(n, left, depth) {
		return
	}
	var words []string
	switch n.Kind {
	case yaml.AliasNode:
		f.node(name, n.Alias, left, depth+1)
	case yaml.ScalarNode:
		f.add(name, n.Value)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			at := name
			if key := n.Content[i]; key.Tag != "!!merge" {
				at = below(name, key.Value)
			}
			f.node(at, n.Content[i+1], left, depth+1)
		}
	case yaml.DocumentNode:
		for _, x := range n.Content {
			f.node(name, x, left, depth+1)
		}
	case yaml.SequenceNode:
		for i, x := range n.Content {
			if x.Kind == yaml.ScalarNode {
				words = append(words, x.Value)
			} else {
				f.node(fmt.Sprintf("%s[%d]", name, i), x, left, depth+1)
			}
		}
	}
	if *left -= len(words); *left < 0 {
		f.fail(errMany)
	} else if len(words) > 0 {
		f.add(name, strings.Join(words, ","))
	}
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

func readTOML(f *fields, text []byte) {
	if f.fail(limit.Check(limit.TOML, text)); f.err != nil {
		return
	}
	var all map[string]any
	meta, err := toml.Decode(string(text), &all)
	if err != nil {
		f.fail(fmt.Errorf("no TOML: %s", strings.TrimPrefix(firstLine(err.Error()), "toml: ")))
	}
	for _, key := range meta.Keys() {
		var v any = all
		for _, k := range key {
			m, _ := v.(map[string]any)
			v = m[k]
		}
		if word, ok := wordOf(v); ok {
			f.add(strings.Join(key, "."), word)
		}
	}
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
func readJSON(f *fields, text []byte) {
	if f.fail(limit.Check(limit.Recipe, text)); f.err != nil {
		return
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := jsonNode(d)
	if err == nil {
		f.walk(n)
		err = f.err
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		f.err = fmt.Errorf("offset %d: no JSON: %w", d.InputOffset(), err)
	}
}

// jsonNode is a value as YAML has it.
func jsonNode(d *json.Decoder) (*yaml.Node, error) {
	t, err := d.Token()
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(t)}
	switch t {
	case nil:
		n.Value = "null"
	case json.Delim('['), json.Delim('{'):
		if n.Kind = yaml.SequenceNode; t == json.Delim('{') {
			n.Kind = yaml.MappingNode
		}
		for err == nil && d.More() {
			var x *yaml.Node
			x, err = jsonNode(d)
			n.Content = append(n.Content, x)
		}
		if err == nil {
			_, err = d.Token()
		}
	}
	return n, err
}

// command notes the words that tell whose command it is, and the model that some take
// without a name.
func (f *fields) command(word string) {
	name, value, hydra := strings.Cut(strings.TrimLeft(word, "+"), "=")
	switch {
	case hydra && strings.Contains(name, "."): // Hydra's
		f.add(below("", name), strings.Trim(value, `'"`))
	case word == "serve" && f.has("vllm"):
		f.values["vllm"] = word
	case f.values["vllm"] == "serve" && f.values["model"] == "":
		f.add("model", word)
	case path.Base(word) == "vllm":
		f.add("vllm", "true")
	case path.Base(word) == "sglang" || strings.HasPrefix(word, "sglang."):
		f.add("sglang", "true")
	case path.Base(word) == "trl":
		f.add("trl", "true")
	case f.values["trl"] == "true":
		f.values["trl"] = word
	case loraScript().MatchString(word): // diffusers'
		f.add("lora_script", "true")
	case strings.Contains(word, "trl/scripts/"):
		f.add("trl", strings.TrimSuffix(path.Base(word), ".py"))
	}
}

func isNumber(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil
}

// loraScript tells the scripts of diffusers that train adapters.
var loraScript = pattern.Of(`(^|/)train_[^/]*_lora[_.][^/]*$`)
