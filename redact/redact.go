// Package redact replaces what could tell a stranger who made a recording, on
// which machine and of what program: paths, names of files and functions
// outside well-known packages, annotations, metadata, titles and notes.
//
//	r := redact.New(os.Getenv("VRAMSCOPE_REDACT_KEY"))
//	r.Snapshot(s)
//	fmt.Println(r.Input("/home/ann/secret/snapshot.pickle")) // dir_3fa2/snapshot.pickle
//
// A pseudonym is made of the name and a key: the same name has the same one
// everywhere in a report, and across reports with the same key. It keeps 16 bits of the
// hash. Who has the key, or guesses it, can try names: a key is a long random text.
// Names that share their 16 bits within a report are told apart by further digits.
//
// What a report needs stays: code of torch and of other well-known packages,
// Python's own library, line numbers, sizes, addresses, times, process numbers.
package redact

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/vramscope/vramscope/internal/pattern"
)

// digits is how much of the hash a pseudonym shows, in hexadecimal digits.
const digits = 4

// Redactor gives pseudonyms and remembers them. Use one for all that goes into
// one report. It is not for use from several goroutines.
type Redactor struct {
	Titles bool // what the user puts above an answer gets a pseudonym, too
	key    []byte
	names  map[name]string
	taken  map[string]bool
}

// madeUp is a key for this run of the program.
var madeUp = sync.OnceValue(rand.Text)

type name struct{ kind, text string }

// New is a redactor. Reports made with the same key have the same pseudonyms. Without one,
// a key is made up for this run of the program: nobody can try which names give its
// pseudonyms, and no other report has the same.
func New(key string) *Redactor {
	if key == "" {
		key = "\x00" + madeUp()
	}
	return &Redactor{key: []byte("vramscope redaction/1\x00" + key), names: map[name]string{}, taken: map[string]bool{}}
}

// name is the pseudonym of a text as the kind of thing that it names.
func (r *Redactor) name(kind, text string) string {
	if text == "" {
		return ""
	}
	if p, ok := r.names[name{kind, text}]; ok {
		return p
	}
	h := hmac.New(sha256.New, r.key)
	h.Write([]byte(kind + "\x00" + text))
	sum := hex.EncodeToString(h.Sum(nil))
	n := digits
	for r.taken[kind+"_"+sum[:n]] {
		n++ // the whole hash can't be taken: it would be the same text's
	}
	p := kind + "_" + sum[:n]
	r.names[name{kind, text}], r.taken[p] = p, true
	return p
}

// Text is what stands for a free text, such as a title.
func (r *Redactor) Text(s string) string { return r.name("text", s) }

// factKeys are keys of notes that say nothing of whoever wrote them.
var factKeys = wordSet("torch pytorch torch_version pytorch_version cuda cuda_version driver driver_version python " +
	"python_version gpu gpus gpu_name nccl precision dtype optimizer batch batch_size seq sequence framework transformers")

// fact is a value that names hardware, a version or a number.
var fact = pattern.Of(`^v?[0-9][0-9a-z.+_-]{0,31}$`)

// Note is a key and its value; a fact such as torch=2.9.1 or gpu=H100 is kept.
func (r *Redactor) Note(key, value string) (string, string) {
	k := strings.ToLower(strings.TrimSpace(key))
	if !factKeys()[k] {
		return r.name("key", key), r.name("value", value)
	}
	if v := strings.ToLower(value); fact().MatchString(v) && !strings.ContainsAny(v, "_-") || isGPU(value) || factValues()[v] {
		return key, value
	}
	return key, r.name("value", value)
}

// factValues are words that a note's value may be.
var factValues = wordSet("bf16 fp16 fp32 fp8 bfloat16 float16 float32 amp adamw adam sgd lion adafactor muon fsdp fsdp2 ddp " +
	"deepspeed accelerate lightning megatron vllm")

// gpuName is how vendors name their GPUs; nothing else may stand there.
var gpuName = pattern.Of(`^(?i)((nvidia|tesla|geforce|quadro|amd|radeon|instinct|rtx|gtx|titan|grid|graphics|device|ada|` +
	`generation|super|ti|max-q|laptop|gpu|pcie|sxm[0-9]?|nvl|hbm[0-9]?e?|oam|dgx|hgx|xp|x|v|pro|blackwell|hopper|` +
	`mi[0-9]{2,3}[xa]?|[abchlptv][0-9]{1,3}[a-z]?|gb?[hb]?[0-9]{2,3}|[0-9]{3,4}|[0-9]+ ?gi?b)[ -]*)+$`)

func isGPU(s string) bool { return len(s) < 64 && gpuName().MatchString(s) }

// Error rewrites a message that may name the given paths, or what lies below
// them, and may quote a file.
func (r *Redactor) Error(message string, paths ...string) string {
	longer := func(a, b string) int { return cmp.Compare(len(b), len(a)) } // which may end in the others
	for _, p := range slices.SortedStableFunc(slices.Values(paths), longer) {
		if len(p) >= 2 { // "-" and "." are nobody's
			message = r.without(message, p)
		}
	}
	return quoted().ReplaceAllStringFunc(message, func(s string) string { return s[:1] + r.Text(s[1:len(s)-1]) + s[len(s)-1:] })
}

// without is a message with a pseudonym wherever it names a path.
func (r *Redactor) without(message, p string) string {
	var out strings.Builder
	for at := 0; ; {
		i := strings.Index(message[at:], p)
		if i < 0 {
			return out.String() + message[at:]
		}
		start, end := at+i, at+i+len(p)
		out.WriteString(message[at:start])
		if joined(message, start) || joined(message, end) && !strings.ContainsAny(p, `/\`) {
			out.WriteString(p) // a part of a longer word
		} else {
			end += named(message[end:], strings.HasSuffix(p, "/"))
			out.WriteString(r.Input(message[start:end]))
		}
		at = end
	}
}

// joined reports whether a word goes on over a place in a message.
func joined(message string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(message[:at])
	after, _ := utf8.DecodeRuneInString(message[at:])
	return isWord(before) && isWord(after)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// named is how much of the text behind a path's name belongs to it. Names of what lies
// below it may have spaces.
func named(text string, below bool) int {
	if below || strings.HasPrefix(text, "/") || strings.HasPrefix(text, `\`) {
		return strings.IndexAny(text+"\n", ":\n\"")
	}
	return len(strings.TrimRight(text[:strings.IndexAny(text+"\n", ":\n\" ")], ",;."))
}

// Renamed is an error whose message Error rewrote, also where it names what lies in
// the folders of the paths. What kind it is can still be asked.
func (r *Redactor) Renamed(err error, paths ...string) error {
	all := slices.Clone(paths)
	for _, p := range paths {
		if dir := path.Dir(p); dir != "." && dir != "/" {
			all = append(all, dir+"/") // a temporary file beside it may be what is named
		}
	}
	return &renamed{r.Error(err.Error(), all...), err}
}

type renamed struct {
	message string
	err     error
}

func (e *renamed) Error() string { return e.message }

// Is asks the error itself, which isn't handed out: it names files.
func (e *renamed) Is(target error) bool { return errors.Is(e.err, target) }

// quoted is a text from a file within a message.
var quoted = pattern.Of(`"(?:[^"\\]|\\.)*"`)
