package markdown

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/report/view"
)

// apart is a zero-width space: it keeps a sign from meaning something to
// GitHub, which looks for mentions and references after it has read the
// Markdown, where escaping is gone.
const apart = "\u200b"

var (
	signs = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "~", `\~`, "[", `\[`, "]", `\]`, "|", `\|`, "&",
		"&amp;", "<", "&lt;", ">", "&gt;", "#", `\#`, "!", `\!`)
	reference = pattern.Of(`(@)([A-Za-z0-9])|(\\#|GH-|gh-)([0-9])|((?i:https?|ftp|mailto|xmpp))(:)|((?i:www))(\.)|` +
		`(:)([a-z][a-z0-9+-]*:|[+-]1:|100:|1234:)`) // no emoji is named by another number, so that "train.py:27:" stays
	commit = pattern.Of(`\b[0-9a-f]{7}[0-9a-f]{0,33}\b`)
	space  = pattern.Of(`\s+`)
)

// prose makes a text safe as Markdown outside code: one line, no markup, no
// mention, no reference to an issue or a commit, no link, no formula, no emoji.
func prose(s string) string { return listMark().ReplaceAllString(inline(s), `$1$4\$2$5$3$6`) }

// inline is the same for what doesn't stand at the beginning of a line.
func inline(s string) string {
	s = signs.Replace(view.Printable(space().ReplaceAllString(strings.TrimSpace(s), " ")))
	s = strings.ReplaceAll(s, "$", "<span>$</span>")
	s = reference().ReplaceAllString(s, "$1$3$5$7$9"+apart+"$2$4$6$8$10")
	return commit().ReplaceAllStringFunc(s, func(hash string) string {
		if strings.ContainsAny(hash, "abcdef") && strings.ContainsAny(hash, "0123456789") {
			return hash[:3] + apart + hash[3:]
		}
		return hash
	})
}

// listMark is what would begin a list or underline a heading at the beginning of a line.
var listMark = pattern.Of(`^([0-9]{1,9})([.)])( |$)|^()([-+=])()`)

// code is a text as it stands, for a table or a line of text; "" for nothing.
// Text in code is never markup, a mention or a reference.
func code(s string) string {
	s = view.Printable(space().ReplaceAllString(strings.TrimSpace(s), " "))
	if s == "" {
		return ""
	}
	if !strings.ContainsAny(s, "`|") {
		return "`" + s + "`"
	}
	// A table ends its cells at a "|" whether in code or not, and "\" before it
	// is no help when the text has one, too: name the signs by number.
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 && strings.ContainsRune("\\`|*_~[]<>&!#@$:.^'\"", r) {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return "<code>" + b.String() + "</code>"
}
