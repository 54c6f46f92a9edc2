-- The names of keys and channels; see Keys in Go. They have the first key's prefix, which is the job
-- pool, or else one of those below. What ends with a colon is followed by an ID or a topic.
local pool = KEYS[1]
-- include: pool
local prefix = string.match(pool, '^(.*)job_pool$') or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
-- include: prefix
local buckets = prefix .. 'job_bucket:'
-- include: prefix
local queues = prefix .. 'ready_queue:'
-- include: prefix
local waiters = prefix .. 'waiting:'
-- include: prefix
local wake_channels = prefix .. 'wake:'
-- include: prefix
local first_due_channel = prefix .. 'first_due'
-- include: prefix
local reserved_counts = prefix .. 'reserved'
-- include: prefix
local limits = prefix .. 'limits'
-- include: prefix
local slots = prefix .. 'slots:'
-- include: prefix
local uncounted = prefix .. 'uncounted'
-- include: prefix
local held_back = prefix .. 'held_back:'
-- include: prefix
local acked_count = prefix .. 'acked'
-- include: prefix
local known_topics = prefix .. 'topics'
-- include: prefix
local topics_due = prefix .. 'topics_due'
-- include: prefix
local dead_letters = prefix .. 'dead_letter:'
-- include: prefix
local dead_lists = prefix .. 'dead_letters:'
-- include: prefix
local dead_topics = prefix .. 'dead_topics'
-- include: prefix
local server_states = prefix .. 'servers'
-- include: prefix
local past_hour = prefix .. 'history'
-- include: prefix
local once = prefix .. 'once'
-- include: prefix
local once_contents = prefix .. 'once_content:'
-- include: prefix
local schedules = prefix .. 'schedules'
-- include: prefix
local removed_schedules = prefix .. 'removed_schedules'
-- include: prefix
local schedule_lists = prefix .. 'schedule_lists'
-- include: prefix
local pauses = prefix .. 'paused'
-- include: prefix
local paused_queues = prefix .. 'paused_queue:'
-- include: prefix
local paused_waiters = prefix .. 'paused_waiting:'
-- include: prefix
local groups = prefix .. 'group:'
-- include: prefix
local texts = prefix .. 'group_text:'
-- include: prefix
local migration = prefix .. 'migration'
-- include: prefix
local aside = prefix .. 'set_aside'
-- include: prefix
local aside_jobs = prefix .. 'set_aside:'
