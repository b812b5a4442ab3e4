// Package secrets hides what a command line gives away: the values of arguments named like a password, keys by
// their known beginnings, and passwords in addresses.
package secrets

import (
	"regexp"
	"strings"
)

// Hidden stands in a secret's place.
const Hidden = "…"

const (
	name   = `[\w.+-]*(?:token|key|secret|password|passwd|credentials?)`
	public = `(?i)(?:^|[_.+-])(?:pad|eos|bos|unk|sep|cls|mask|sort)[_.-]?(?:token|key)$` // settings that are named alike
)

var (
	// assigned are --name=value and NAME=value, within a word of a shell, too.
	assigned = regexp.MustCompile(`(?i)((?:^|[\s'"(;?&])` + name + `)([=:]\s*)('[^']*'|"[^"]*"|[^\s'";&]+)`)
	// followed are --name value.
	followed = regexp.MustCompile(`(?i)((?:^|[\s'"(])--?` + name + `)(\s+)('[^']*'|"[^"]*"|[^\s'"-][^\s'"]*)`)
	flag     = regexp.MustCompile(`(?i)^--?` + name + `$`)
	notOne   = regexp.MustCompile(public)
	known    = regexp.MustCompile(`\b(hf_|sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA)[A-Za-z0-9_-]{8,}`)
	address  = regexp.MustCompile(`(://[^\s/:@]*:)[^\s/@]+@`)
)

// Words are a command's with the secrets hidden.
func Words(command []string) []string {
	out := make([]string, len(command))
	for i, w := range command {
		if i > 0 && flag.MatchString(command[i-1]) && !notOne.MatchString(command[i-1]) && !strings.HasPrefix(w, "-") {
			out[i] = Hidden
		} else {
			out[i] = Text(w)
		}
	}
	return out
}

// Text is a command in one line, or a part of one, with the secrets hidden.
func Text(s string) string {
	for _, pattern := range []*regexp.Regexp{assigned, followed} {
		s = pattern.ReplaceAllStringFunc(s, func(found string) string {
			m := pattern.FindStringSubmatch(found)
			if notOne.MatchString(m[1]) {
				return found
			}
			return m[1] + m[2] + Hidden
		})
	}
	s = known.ReplaceAllStringFunc(s, func(found string) string {
		if !strings.ContainsAny(found[len("hf_"):], "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") {
			return found // a name in words
		}
		return known.FindStringSubmatch(found)[1] + Hidden
	})
	return address.ReplaceAllString(s, "${1}"+Hidden+"@")
}
