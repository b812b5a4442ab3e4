// Package templates holds what the HTML report is made of: page templates,
// style, scripts, and the charting library with its licence.
package templates

import (
	"embed"
	"strings"
)

// Pages are the templates; page.tmpl is the whole page.
//
//go:embed *.tmpl
var Pages embed.FS

// Plain is the template of answers that are sheets.
//
//go:embed plain/*.html
var Plain embed.FS

// Index is the template of the page over many runs.
//
//go:embed index/index.tmpl
var Index string

//go:embed css/*.css js/*.js index/*.css index/*.js view/*.css view/*.js compare/*.css compare/*.js
var parts embed.FS

//go:embed echarts/echarts.min.js
var echarts string

// licence is that of the charting library; it goes wherever the library goes.
//
//go:embed echarts/LICENSE
var licence string

// notice belongs to the licence.
//
//go:embed echarts/NOTICE
var notice string

// Style is the page's style sheet.
func Style() string { return join("css") }

// Scripts are the page's scripts in the order in which they run. Those of the
// report are one function, so that they share names with each other only.
func Scripts() []string {
	// A browser drops "\r", and would see another script than the policy allows.
	terms := strings.ReplaceAll("/*\n"+notice+"\n\n"+licence+"\n*/\n", "\r", "")
	return []string{terms + echarts, "(function () {\n'use strict';\n" + join("js") + "})();\n"}
}

// LightScript is the script of a report that draws nothing by the charting library.
func LightScript() string {
	return "(function () {\n'use strict';\n" + read("js/05-text.js") + read("js/10-base.js") + read("js/15-page.js") +
		"page();\nready();\n})();\n"
}

// ServedScripts are the page's scripts where a server has its columns, and other pages.
func ServedScripts() []string {
	scripts := Scripts()
	last := len(scripts) - 1
	scripts[last] = served(scripts[last])
	return scripts
}

// ServedScript is LightScript there.
func ServedScript() string { return served(LightScript()) }

// served puts a part in front: what stands at the end of a script runs at once.
func served(script string) string {
	return strings.Replace(script, "'use strict';\n", "'use strict';\n"+read("view/served.js"), 1)
}

// ServedStyle is what a served page adds to Style.
func ServedStyle() string { return read("view/served.css") }

// CompareStyle is what the page of a comparison adds to PlainStyle.
func CompareStyle() string { return read("compare/compare.css") }

// CompareScript is that page's script.
func CompareScript() string {
	script := "(function () {\n'use strict';\n"
	for _, part := range []string{"js/05-text.js", "js/10-base.js", "js/15-page.js",
		"js/20-data.js", "js/26-cursor.js", "js/28-flame.js",
		"js/40-raster.js", "compare/compare.js"} {
		script += read(part)
	}
	return script + "})();\n"
}

// IndexStyle is what the page over many runs adds to Style.
func IndexStyle() string { return read("index/index.css") }

// IndexScript is the script of the page over many runs.
func IndexScript() string {
	return "(function () {\n'use strict';\n" + read("js/05-text.js") + read("js/10-base.js") + read("index/index.js") + "})();\n"
}

func read(name string) string {
	text, err := parts.ReadFile(name)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return string(text)
}

// join puts a folder's files together in the order of their names.
func join(folder string) string {
	entries, err := parts.ReadDir(folder)
	if err != nil {
		panic(err) // the folder is part of the program
	}
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(read(folder + "/" + e.Name()))
	}
	return b.String()
}
