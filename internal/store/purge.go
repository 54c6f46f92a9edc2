package store

import "context"

var purgeScript = newScript("purge")

// ReadyCount returns the number of entries in the topic's ready queue, or of its parked jobs. If that can't be read it returns 1, so that
// a purge is tried and reports the error.
func (s *Store) ReadyCount(ctx context.Context, topic string) (int, error) {
	stats, err := s.Stats(ctx, []string{topic}, false)
	if err != nil {
		return 0, err
	}
	if n := stats.Topics[0].Ready; n >= 0 {
		return n, nil
	}
	return 1, nil
}

// Purge deletes up to MaxPop of the topic's next ready jobs, from up to this many entries of its queue. It returns the numbers of deleted
// jobs and entries; it deletes fewer if that takes long.
func (s *Store) Purge(ctx context.Context, topic string, entries int) (deleted, used int, err error) {
	args := append(arguments(6, s.jobPool, s.keys.ReadyQueue(topic)), MaxPop, "", 0, 0, entries, topic)
	_, err = newCall(s, purgeScript, args, func(reply any) ([]any, error) { return scan(reply, &deleted, &used) }).Do(ctx)
	return deleted, used, err
}
