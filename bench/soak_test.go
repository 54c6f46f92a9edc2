package main

import (
	"reflect"
	"testing"
	"time"
)

// Each job is accounted for: those that were acknowledged and not delivered are lost.
func TestSoakAccount(t *testing.T) {
	defer func(before time.Duration) { soakFor = before }(soakFor)
	soakFor = 10 * time.Second
	due := time.Unix(1000, 0)
	s := &soak{began: due, jobs: []soaked{
		{due: due, acknowledged: true},             // delivered twice
		{due: due, acknowledged: true},             // lost
		{due: due},                                 // recovered
		{due: due},                                 // not stored
		{due: due, acknowledged: true, dead: true}, // a dead letter
		{due: due, acknowledged: true, dead: true}, // lost
		{due: due, acknowledged: true},             // early
	}}
	s.delivered(0, 1, due.Add(3*time.Millisecond))
	s.delivered(0, 2, due.Add(2*time.Second))
	s.delivered(2, 1, due.Add(9*time.Second))
	s.delivered(6, 1, due.Add(-time.Second))
	s.delivered(99, 1, due)
	use := make([]float64, len(useColumns))
	table := s.section(use, use, 1).Tables[0]
	got := map[string]float64{}
	for i, c := range table.Columns {
		got[c.Name] = table.Rows[0].Cells[i].Median()
	}
	want := map[string]float64{
		"pushed": 7, "acknowledged": 5, "delivered": 3, "dead letters": 1, "lost": 2, "unexpected": 1, "duplicated": 1, "recovered": 1, "early": 1,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if late := s.late[0]; len(late) != 1 || late[0] != 3*time.Millisecond {
		t.Errorf("lateness in the first tenth: %v", late)
	}
}
