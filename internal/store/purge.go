package store

import "context"

var purgeScript = newScript("purge")

// ReadyCount is how many entries the topic's ready queue has, also while it is paused. Of one that can't be read it is 1, so that a
// purge is tried, which tells why.
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

// Purge deletes up to MaxPop of the topic's next ready jobs, of so many entries of its queue at
// most. It returns how many jobs there were, and how many entries; these are fewer also where that
// took enough time.
func (s *Store) Purge(ctx context.Context, topic string, entries int) (deleted, used int, err error) {
	args := append(arguments(6, s.jobPool, s.keys.ReadyQueue(topic)), MaxPop, "", 0, 0, entries, topic)
	_, err = newCall(s, purgeScript, args, func(reply any) ([]any, error) { return scan(reply, &deleted, &used) }).Do(ctx)
	return deleted, used, err
}
