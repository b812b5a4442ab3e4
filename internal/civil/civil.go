// Package civil counts the days of the calendar.
package civil

// Days since 1970-01-01 in the Gregorian calendar (Howard Hinnant's method);
// time.Date is several times slower, and a log has a date on every line.
func Days(year, month, day int64) int64 {
	if month <= 2 {
		year--
	}
	era := year / 400
	ofEra := year - era*400
	ofYear := (153*((month+9)%12)+2)/5 + day - 1
	return era*146097 + ofEra*365 + ofEra/4 - ofEra/100 + ofYear - 719468
}
