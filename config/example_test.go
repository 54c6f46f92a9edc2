package config_test

import (
	"fmt"

	"github.com/mix-basic/delayer/config"
)

// All problems are reported together, one per line. Passwords are never shown.
func ExampleLoad() {
	_, err := config.Load("testdata/wrong.conf")
	fmt.Println(err)
	// Output:
	// testdata/wrong.conf:2: warning: delayer.timer_intervall: unknown key, did you mean timer_interval?
	// testdata/wrong.conf:4: redis.port: want a whole number from 1 to 65535, in decimal digits without leading zeros
	// testdata/wrong.conf:5: redis.password: the # starts a comment: put the value in double quotes, or a space on both sides of the #
}

func ExampleRedis_Addr() {
	fmt.Println(config.Default().Redis.Addr())
	fmt.Println(config.Redis{Host: "/run/redis/redis.sock"}.Addr())
	// Output:
	// 127.0.0.1:6379
	// /run/redis/redis.sock
}
