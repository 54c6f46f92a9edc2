package conformance

import "testing"

// The table shows no password.
func TestURLWithoutPassword(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:p%40@h:1/2":                                   "redis://h:1/2",
		"rediss://p@h?partitions=3":                              "rediss://h?partitions=3",
		"redis-cluster://u:p@a:1,b:2,c:3?partitions=16":          "redis-cluster://a:1,b:2,c:3?partitions=16",
		"redis-sentinel://:p@a,b:2?master=m&sentinel_password=q": "redis-sentinel://a,b:2?master=m",
		"unix://u:p@/path/of/redis.sock?db=1":                    "unix:///path/of/redis.sock?db=1",
	} {
		expect(t, url, withoutPassword(url), nil, want)
	}
}
