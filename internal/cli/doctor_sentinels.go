package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/daemon"
	"github.com/mix-basic/delayer/internal/doctor"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// checkSentinels asks each sentinel for the master, and whether enough sentinels are there for a failover.
func checkSentinels(ctx context.Context, r config.Redis, o client.PoolOptions) (list []doctor.Finding, _ error) {
	if len(r.Sentinels) == 0 {
		return nil, nil
	}
	sentinels := daemon.Sentinels(o)
	var masters []string
	var denied error
	for _, sentinel := range r.Sentinels {
		master, err := askSentinel(ctx, sentinels.To(sentinel), r.SentinelMaster)
		switch refusal := redis.Error(""); {
		case store.Refused(err):
			denied = err
		case errors.As(err, &refusal):
			list = append(list, doctor.Finding{Evidence: fmt.Sprintf("sentinel %s says: %v", sentinel, err), Fix: "start the other sentinels; redis-cli SENTINEL SENTINELS " + r.SentinelMaster})
		case err != nil:
			list = append(list, doctor.Finding{Evidence: fmt.Sprintf("sentinel %s does not respond: %v", sentinel, unreachable(err)), Fix: "start it, or remove it from redis.sentinels"})
		}
		if master != "" {
			masters = append(masters, sentinel+" names "+master)
			if _, first, _ := strings.Cut(masters[0], " names "); first != master {
				list = append(list, doctor.Finding{Evidence: "sentinels disagree about the master: " + masters[0] + ", " + masters[len(masters)-1], Fix: "wait for the end of a failover; else redis-cli SENTINEL RESET " + r.SentinelMaster})
			}
		}
	}
	if len(list) == 0 {
		return nil, denied
	}
	return list, nil
}

// askSentinel returns the address of the master, also with the error about the number of sentinels.
func askSentinel(ctx context.Context, d redisconn.Dialer, name string) (master string, err error) {
	conn, err := d.Dial(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	parts, err := redis.Strings(redis.DoContext(conn, ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))
	if err != nil || len(parts) != 2 {
		return "", err
	}
	_, err = redis.DoContext(conn, ctx, "SENTINEL", "CKQUORUM", name)
	return net.JoinHostPort(parts[0], parts[1]), err
}
