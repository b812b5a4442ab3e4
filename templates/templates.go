// Package templates holds what the HTML report is made of: page templates,
// style, scripts, and the charting library with its licence.
package templates

import (
	"embed"
	"io/fs"
	"strings"
)

// Pages are the templates; page.tmpl is the whole page.
//
//go:embed *.tmpl
var Pages embed.FS

//go:embed css/*.css js/*.js
var parts embed.FS

//go:embed echarts/echarts.min.js
var echarts string

// Licence is that of the charting library; it goes wherever the pages go.
//
//go:embed echarts/LICENSE
var Licence string

// Notice belongs to the licence.
//
//go:embed echarts/NOTICE
var Notice string

// Style is the page's style sheet.
func Style() string { return join("css") }

// Scripts are the page's scripts in the order in which they run. Those of the
// report are one function, so that they share names with each other only.
func Scripts() []string {
	return []string{echarts, "(function () {\n'use strict';\n" + join("js") + "})();\n"}
}

// join puts a folder's files together in the order of their names.
func join(folder string) string {
	entries, err := parts.ReadDir(folder)
	if err != nil {
		panic(err) // the folder is part of the program
	}
	var b strings.Builder
	for _, e := range entries {
		text, err := fs.ReadFile(parts, folder+"/"+e.Name())
		if err != nil {
			panic(err)
		}
		b.Write(text)
	}
	return b.String()
}
