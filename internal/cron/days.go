package cron

import "time"

// days is the set defined by the day-of-month and day-of-week fields. If both are restricted, a day has to
// match only one.
type days struct {
	anyDay, anyWeekday bool // the field has a * or ?

	inMonth  bits
	nearest  bits // nearest working days: 15W
	last     bool // L
	lastWork bool // LW

	inWeek bits
	nth    [6]bits // only the nth weekday of the month: 5#2
	lasts  bits    // only the last weekday of the month: 5L
}

func (d *days) has(t time.Time) bool {
	ofMonth, ofWeek := d.hasDay(t), d.hasWeekday(t)
	if d.anyDay || d.anyWeekday {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

func (d *days) hasDay(t time.Time) bool {
	day, last := t.Day(), lastDay(t)
	if d.inMonth.has(day) || d.last && day == last || d.lastWork && day == workingDay(t, last, last) {
		return true
	}
	for n := 1; d.nearest != 0 && n <= last; n++ {
		if d.nearest.has(n) && day == workingDay(t, n, last) {
			return true
		}
	}
	return false
}

func (d *days) hasWeekday(t time.Time) bool {
	weekday, day := int(t.Weekday()), t.Day()
	return d.inWeek.has(weekday) || d.nth[(day+6)/7].has(weekday) || d.lasts.has(weekday) && day+7 > lastDay(t)
}

func lastDay(t time.Time) int {
	return time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// workingDay returns the working day of t's month that is nearest to a day.
func workingDay(t time.Time, day, last int) int {
	switch time.Date(t.Year(), t.Month(), day, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if day > 1 {
			return day - 1
		}
		return day + 2
	case time.Sunday:
		if day < last {
			return day + 1
		}
		return day - 2
	}
	return day
}
