//go:build !windows

package main

import "testing"

func TestFsckCommand(t *testing.T) {
	s, db := newShellHere(t)
	s.expect(0, "0 keys and 0 entries checked: nothing is wrong\n", "", "fsck")
	s.expect(0, `{"keys":0,"entries":0,"findings":[],"left":0,"busy_topics":0}`+"\n", "", "fsck", "--json")
	db.Do("ZADD", "delayer:schedules", "0", "gho\x1bst")
	s.expect(1, "schedule_without_job: 1 found, 0 repaired: names of schedules that do not exist\n  gho\\u001bst\n"+
		"1 keys and 0 entries checked: faults: 1; delayer fsck --repair repairs them\n", "", "fsck")
	s.expect(0, `{"keys":1,"entries":0,"findings":[{"kind":"schedule_without_job","found":1,"repaired":1,"left":0,"examples":["gho\u001bst"]}],"left":0,"busy_topics":0}`+"\n", "", "fsck", "--json", "--repair")
	db.Do("SET", "delayer:what", "")
	s.keeps("fsck --repair", 1, ": faults left: 1\n")
	s.expect(1, "unknown_key: 1 found, 0 repaired: keys under the prefix that Delayer does not know; they stay\n  delayer:what\n"+
		"1 keys and 0 entries checked: faults: 1, which delayer fsck leaves as they are\n", "", "fsck")
	db.Do("ZADD", "delayer:schedules", "0", "a", "0", "b")
	s.keeps("fsck", 1, ": faults: 3; delayer fsck --repair repairs 2 of them\n")
	s.env = environment(t, "DELAYER_REDIS_PORT=1")
	s.keeps("fsck", 3, "")
}
