package dashboard

import (
	"context"
	"strings"
)

// Place describes where Redis is if it has no fixed address: the name of a master with its sentinels, or
// nodes of a cluster.
type Place struct {
	Master             string
	Sentinels, Cluster []string
	Now                func(context.Context) (string, error) // asks the sentinels for the master's address
}

// where describes the place; now is the master's address, empty if unknown.
func (p *page) where(now string) string {
	at := p.Place
	switch {
	case len(at.Cluster) > 0:
		return p.T("redis.cluster", strings.Join(at.Cluster, ", "))
	case len(at.Sentinels) == 0:
		return ""
	case now == "":
		return p.T("redis.nowhere", at.Master, strings.Join(at.Sentinels, ", "))
	}
	return p.T("redis.now", at.Master, strings.Join(at.Sentinels, ", "), visible(now))
}
