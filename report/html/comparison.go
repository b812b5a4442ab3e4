package html

import (
	"encoding/base64"
	"io"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/templates"
)

// Compared is what a comparison's page shows of its two recordings over time.
type Compared struct {
	Before, After *report.Device // with pictures
	Names         [2]string
	Steps         []report.DiffStep
	// Sites and Frames pair those of both devices' pictures, by their indices.
	Sites, Frames [][2]int
}

// Comparison writes a comparison as a sheet with both recordings over time above it, in
// one file that needs nothing else.
func Comparison(w io.Writer, s *view.Sheet, c *Compared) error {
	var data struct {
		Columns [2]string `json:"columns"`
		Names   [2]string `json:"names"`
		Steps   [][2]*int `json:"steps"`
		Sites   [][2]int  `json:"sites"`
		Frames  [][2]int  `json:"frames"`
	}
	for i, d := range []*report.Device{c.Before, c.After} {
		columns, err := pack(d)
		if err != nil {
			return err
		}
		data.Columns[i] = base64.StdEncoding.EncodeToString(columns)
		data.Names[i] = view.Printable(c.Names[i])
	}
	data.Steps, data.Sites, data.Frames = [][2]*int{}, list(c.Sites), list(c.Frames)
	for _, x := range c.Steps {
		data.Steps = append(data.Steps, [2]*int{x.BeforeStep, x.AfterStep})
	}
	json, err := embed(&data)
	if err != nil {
		return err
	}
	return sheetPage(w, s, json, templates.CompareStyle(), templates.CompareScript())
}
