package batch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/internal/pattern"
)

const (
	maxName    = 120 // bytes of a folder's name, less than any file system's limit
	nameDigits = 12  // of the hash that tells names apart which lost something
)

// safeBytes are those that any file system has in names.
const safeBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

// FolderName is the folder below runs/ of the run at a path. It depends on the
// path alone, so that every shard gives the same; no two paths share one; and
// it is one element that is safe in any file system, whatever the path holds.
func FolderName(place string) string {
	var b strings.Builder
	for _, c := range []byte(place) {
		switch {
		case c == '/':
			b.WriteString("__")
		case strings.IndexByte(safeBytes, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('_')
		}
	}
	name := b.String()
	if plainPath().MatchString(place) && !strings.HasSuffix(place, ".") && !hashed().MatchString(place) && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(place))
	name = strings.Trim(name[:min(len(name), maxName-nameDigits-1)], "._-")
	if name == "" {
		name = "run"
	}
	return name + "-" + hex.EncodeToString(sum[:])[:nameDigits]
}

var (
	// plainPath is a path that its folder's name shows in full.
	plainPath = pattern.Of(`^/?[A-Za-z0-9][A-Za-z0-9.-]*([_/][A-Za-z0-9][A-Za-z0-9.-]*)*$`)
	hashed    = pattern.Of(`-[0-9a-f]{12}$`)
)

// experimentOf is what runs of the same experiment have in common: the path
// without endings and without numbers, dates and random ids that tell one run
// from the next. Numbers of a model's size or of a setting stay: llama-7b,
// bs16, seq_2048, lr0.001.
func experimentOf(place string) string {
	if scheme, rest, ok := strings.Cut(place, "://"); ok {
		return scheme + "://" + experimentOf(rest)
	}
	var kept []string
	for _, element := range strings.Split(filename.WithoutEndings(place), "/") {
		if e := withoutNumbers(element); e != "" {
			kept = append(kept, e)
		}
	}
	if len(kept) == 0 {
		return "runs"
	}
	e := path.Join(kept...)
	if strings.HasPrefix(place, "/") {
		e = "/" + e
	}
	return e
}

// withoutNumbers takes out of one element what numbers a run.
func withoutNumbers(element string) string {
	if element == ".." || element == "." {
		return element
	}
	var b strings.Builder
	before := "" // the word before
	for rest := element; rest != ""; {
		at := strings.IndexFunc(rest, func(c rune) bool { return !strings.ContainsRune(separators, c) })
		if at < 0 {
			break
		}
		gap := rest[:at]
		inside := gap == "." && endsInDigit().MatchString(before) // of a version or an address
		word, number := firstWord(rest[at:], before, inside)
		rest = rest[at+len(word):]
		kept := word
		switch low := strings.ToLower(word); {
		case number >= 0:
			if measured().MatchString(cmp.Or(strings.ToLower(word[:number]), before)) {
				kept = word[:number]
			}
		case allDigits().MatchString(low) && (word == element || countsRuns(low, before)), stamp().MatchString(low),
			isRandom(low):
			kept = ""
		case numbered().MatchString(low):
			kept = strings.TrimRight(word, "0123456789")
		case month().MatchString(low) && nextIsNumber().MatchString(rest):
			kept = ""
		}
		before = strings.ToLower(word)
		if kept == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(gap)
		}
		b.WriteString(kept)
	}
	return b.String()
}

// firstWord is what text begins with up to a separator, and where in it a
// decimal number begins, -1 for none: its point and the sign of its exponent
// separate nothing.
func firstWord(text, before string, inside bool) (word string, number int) {
	if m := decimal().FindStringSubmatchIndex(text); m != nil && !inside {
		word, number = text[:m[1]], m[4]
		after := text[m[1]:]
		ends := after == "" || strings.Contains(separators, after[:1]) && !pointed().MatchString(after)
		clock := clockTime().MatchString(word) && allDigits().MatchString(before)
		if ends && !clock {
			return word, number
		}
	}
	if end := strings.IndexAny(text, separators); end >= 0 {
		text = text[:end]
	}
	return text, -1
}

const separators = "-_. ,=:+"

var (
	allDigits    = pattern.Of(`^[0-9]+$`)
	stamp        = pattern.Of(`^[0-9]{4,14}t[0-9]{4,12}z?$|^[0-9]{1,2}h[0-9]{1,2}(m([0-9]{1,2}s?)?)?$`)
	nextIsNumber = pattern.Of(`^[-_. ][0-9]`)
	month        = pattern.Of(`^(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*$`)
	// decimal is a word with a number such as 1.3b, 0.001 or 1e-5; numbers with more
	// digits are times and process ids.
	decimal = pattern.Of(`^((?:[^-_. ,=:+]*[^-_. ,=:+0-9])?)((?:(?:0|[1-9][0-9]{0,2})\.[0-9]{1,6}(?:[eE][-+]?[0-9]{1,2})?|` +
		`[1-9][0-9]{0,2}[eE][-+][0-9]{1,2})(?:[^-_. ,=:+0-9][^-_. ,=:+]*)?)`)
	endsInDigit = pattern.Of(`[0-9]$`)
	pointed     = pattern.Of(`^\.[0-9]`)
	clockTime   = pattern.Of(`^[0-9]{2}\.[0-9]{2}$`)
	// measured are words whose decimal number tells one run from the next.
	measured = pattern.Of(`^(run|exp|experiment|job|trial|seed|try|attempt|step|iter|iteration|epoch|rank|copy|test|slurm|pid|` +
		`host|node|loss|acc|accuracy|ppl|perplexity|score)$`)
	// numbered are words whose number tells one run from the next.
	numbered = pattern.Of(`^(run|exp|experiment|job|trial|seed|try|attempt|version|v|step|iter|iteration|epoch|rank|copy|test|` +
		`slurm|pid|host|node)[0-9]+$`)
	counter = pattern.Of(`^(run|exp|experiment|job|trial|seed|try|attempt|version|v|step|iter|iteration|epoch|rank|copy|test|` +
		`slurm|pid|host|node)$`)
	// settingWord are words whose number is a setting.
	settingWord = pattern.Of(`^(b|bs|mbs|lbs|gbs|batch|batchsize|size|seq|seqlen|len|length|ctx|context|lr|wd|tp|pp|dp|cp|ep|` +
		`fsdp|zero|stage|gpu|gpus|gpt|llama|bert|t|layers|layer|dim|hidden|heads|vocab|accum|accumulate|world|nodes|fp|bf|int|` +
		`lora|r|top|beam)$`)
	randomID = pattern.Of(`^[0-9a-z]{7,40}$`)
)

// countsRuns tells a number that counts runs from one of a setting: behind a
// word for it, or a power of two as sequences' lengths are.
func countsRuns(number, before string) bool {
	n, err := strconv.ParseUint(number, 10, 32)
	size := err == nil && n >= 64 && n&(n-1) == 0 && number[0] != '0'
	return !settingWord().MatchString(before) && (!size || counter().MatchString(before))
}

// isRandom tells the ids that trackers make from words: letters and digits in turns.
func isRandom(word string) bool {
	if !randomID().MatchString(word) {
		return false
	}
	turns := 0
	for i := 1; i < len(word); i++ {
		if (word[i] <= '9') != (word[i-1] <= '9') {
			turns++
		}
	}
	return turns >= 3
}
