package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
)

//go:embed plain.css
var plainCSS string

//go:embed plain.html
var plainHTML string

// plainHead is the beginning of a page without scripts, up to its title. The policy
// allows our style sheet by its hash, and nothing else.
type plainHead struct {
	Title  string
	Policy string
	CSS    template.CSS
}

func newPlainHead(title string) plainHead {
	sum := sha256.Sum256([]byte(plainCSS))
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(
		sum[:]) + "'"
	return plainHead{title, policy, template.CSS(plainCSS)}
}

// plainPage is the template of such a page, which begins with "head" of its Head.
func plainPage(page string, funcs template.FuncMap) (*template.Template, error) {
	head, err := template.New("page").Funcs(template.FuncMap{"printable": Printable}).Parse(plainHTML)
	if err != nil {
		return nil, err
	}
	return head.Funcs(funcs).Parse(page)
}
