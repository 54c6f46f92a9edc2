package store

var strayScript = newScript("stray")

// strayTopics is the number of topics read per partition, which takes Redis a fraction of a millisecond.
const strayTopics = 200

// CountedStray counts jobs and dead letters in a partition that no program reads.
type CountedStray struct {
	Jobs    int
	AtLeast bool // there may be more
}

// CountStray returns the approximate number of jobs and dead letters in the partition.
func (s *Store) CountStray() *Call[CountedStray] {
	args := append(arguments(1, s.keys.JobPool()), strayTopics)
	return newCall(s, strayScript, args, func(reply any) (found CountedStray, err error) {
		_, err = scan(reply, &found.Jobs, &found.AtLeast)
		return found, err
	})
}
