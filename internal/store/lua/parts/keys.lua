-- The names of keys and channels; see Keys in Go. They have the first key's prefix, which is the job
-- pool, or else one of those below. What ends with a colon is followed by an ID or a topic.
local pool = KEYS[1]
local prefix = string.match(pool, '^(.*)job_pool$') or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local queues = prefix .. 'ready_queue:'
local waiters = prefix .. 'waiting:'
local wake_channels = prefix .. 'wake:'
local first_due_channel = prefix .. 'first_due'
local reserved_counts = prefix .. 'reserved'
local acked_count = prefix .. 'acked'
local known_topics = prefix .. 'topics'
local topics_due = prefix .. 'topics_due'
local dead_letters = prefix .. 'dead_letter:'
local dead_lists = prefix .. 'dead_letters:'
local dead_topics = prefix .. 'dead_topics'
local server_states = prefix .. 'servers'
local past_hour = prefix .. 'history'
local once = prefix .. 'once'
local schedules = prefix .. 'schedules'
local migration = prefix .. 'migration'
local aside = prefix .. 'set_aside'
local aside_jobs = prefix .. 'set_aside:'
