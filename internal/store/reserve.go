package store

import "time"

var reserveScript = newScript("reserve")

// Lease describes the lease of a reserved job.
type Lease struct {
	Attempt     int // the first is 1
	MaxAttempts int // 0 if the job sets none
	Length      time.Duration
	End         int64         // in Unix µs by Redis's clock
	Token       int64         // names the lease; it rises from reserve to reserve
	Late        time.Duration // how long the job was ready; -1 if unknown
}

// Reservation has the terms of a reserve.
type Reservation struct {
	Lease       time.Duration // 0: the job's own, or else 30 s
	MaxAttempts int           // of a job that sets none; 0: any number
}

// Reserve takes jobs like Pop, and leases them. After a connection error up to MaxPop jobs may be leased; they return when their leases
// end.
func (s *Store) Reserve(w Wanted, r Reservation) *Call[Popped] {
	args := w.args(s, milliseconds(r.Lease), r.MaxAttempts)
	return newCall(s, reserveScript, args, func(reply any) (Popped, error) { return poppedOf(reply, w.Topics, true) })
}

// leasesOf reads the leases of n jobs, the first element of the rest of reserve.lua's reply.
func leasesOf(reply []any, n int) (leases []Lease, ok bool) {
	if len(reply) == 0 {
		return nil, false
	}
	list, _ := reply[0].([]any)
	next := func() (n int64) {
		if ok = len(list) > 0; ok {
			n, ok = list[0].(int64)
			list = list[1:]
		}
		return n
	}
	usual := Lease{Length: time.Duration(next()) * time.Millisecond, End: next(), Token: next()}
	leases = make([]Lease, n)
	for i := range leases {
		l := usual
		l.Attempt, l.Late = int(next()), max(time.Duration(next())*time.Millisecond, -1)
		if l.Attempt < 0 {
			l.Attempt, l.MaxAttempts, l.Length, l.End, l.Token = -l.Attempt, int(next()), time.Duration(next())*time.Millisecond, next(), next()
		}
		if leases[i] = l; !ok {
			return nil, false
		}
	}
	return leases, len(list) == 0
}
