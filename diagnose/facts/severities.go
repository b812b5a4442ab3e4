package facts

import "github.com/vramscope/vramscope/report"

// Severities in the order of a report.
var Severities = map[report.Severity]int{report.Critical: 0, report.Warning: 1, report.Info: 2}
