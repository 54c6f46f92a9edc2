package store

var strayScript = newScript("stray")

// strayTopics is how many topics of a partition are looked at for stray jobs, which takes Redis a fraction of a millisecond.
const strayTopics = 200

// CountedStray is how many jobs and dead letters a partition has in which no program looks.
type CountedStray struct {
	Jobs    int
	AtLeast bool // there may be more
}

// CountStray counts what the partition has, about.
func (s *Store) CountStray() *Call[CountedStray] {
	args := append(arguments(1, s.keys.JobPool()), strayTopics)
	return newCall(s, strayScript, args, func(reply any) (found CountedStray, err error) {
		_, err = scan(reply, &found.Jobs, &found.AtLeast)
		return found, err
	})
}
