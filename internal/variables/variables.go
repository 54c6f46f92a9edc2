// Package variables names the environment variables of Delayer that are no settings of delayer.conf.
package variables

const (
	// RedisURL is the URL of a Redis, as package client reads it. It goes before all settings that say where Redis is.
	RedisURL = "DELAYER_REDIS_URL"
	// URL is where the HTTP server of a daemon is, for commands, and Token the token that it wants.
	URL, Token = "DELAYER_URL", "DELAYER_TOKEN"
	// Job begins the variables that describe the job to a worker's program, Header those with the job's headers. A delayer that
	// such a program starts ignores them.
	Job, Header = "DELAYER_JOB_", "DELAYER_HEADER_"
)
