// The documentation's calls, made with a client that is generated from the description.
import createClient from "openapi-fetch";
import type { paths } from "./delayer.js";

const client = createClient<paths>({ baseUrl: process.argv[2]! });

function check(what: string, right: boolean, answer: { error?: { type: string; detail?: string } | undefined; response: Response }) {
  if (!right) throw new Error(`${what}: ${answer.response.status} ${answer.error?.type} ${answer.error?.detail}`);
}

const order = { id: "order-1001", topic: "close_order", body: '{"order":"1001"}' };
const pushed = await client.POST("/v1/jobs", { body: { ...order, delay: "30m" } });
check("push", pushed.data?.id === order.id && pushed.data.outcome === "created", pushed);
for (const outcome of ["created", "refused"]) {
  const keyed = await client.POST("/v1/jobs", { params: { header: { "Idempotency-Key": "welcome-42" } }, body: { topic: "mail", body: "welcome" } });
  check("push with a key", keyed.data?.id === "key:welcome-42" && keyed.data.outcome === outcome, keyed);
}
const forgotten = await client.DELETE("/v1/jobs/{id}", { params: { path: { id: "key:welcome-42" } } });
check("remove the key", forgotten.data?.was === "ready", forgotten);
for (const outcome of ["created", "added"]) {
  const news = { topic: "digest", body: '{"comment":7}', group: "customer-42", group_quiet: "1m", group_longest: "15m" };
  const grouped = await client.POST("/v1/jobs", { body: news });
  check("push to a group", grouped.data?.outcome === outcome, grouped);
}
const path = { path: { id: order.id } };
const got = await client.GET("/v1/jobs/{id}", { params: path });
check("get", got.data?.state === "waiting" && got.data.body === order.body, got);
const rescheduled = await client.PATCH("/v1/jobs/{id}", { params: path, body: { delay: "1h" } });
check("reschedule", rescheduled.response.status === 204, rescheduled);
const removed = await client.DELETE("/v1/jobs/{id}", { params: path });
check("remove", removed.data?.was === "waiting", removed);

const batch = await client.POST("/v1/jobs/batch", { body: { jobs: [{ ...order, delay: 0 }, { topic: order.topic, body_base64: "/w==", headers: { tenant: "acme" } }] } });
check("push a batch", batch.data?.complete === true, batch);
const reserved = await client.POST("/v1/reserve", {
  params: { query: { wait: "30s" } },
  body: { topics: [order.topic], max: 10, lease: "1m", max_attempts: 10 },
});
check("reserve", reserved.data?.deliveries.length === 2, reserved);
const [first, ...others] = reserved.data!.deliveries;
const ack = () => client.POST("/v1/jobs/{id}/ack", { params: { path: { id: first!.id! } }, body: { topic: first!.topic, token: first!.token } });
const acked = await ack();
check("ack", acked.response.status === 204, acked);
const again = await ack();
check("headers", others[0]?.headers?.["tenant"] === "acme", reserved);
check("ack again", again.error?.type === "urn:delayer:problem:gone", again);
const several = await client.POST("/v1/ack", { body: { deliveries: others } }); // as they were given
check("ack several", several.data?.count === 1, several);

const stats = await client.GET("/v1/stats");
check("stats", stats.data?.ready === 0 && stats.data.redis?.role === "master", stats);
const topics = await client.GET("/v1/topics", { params: { query: { contains: "order", limit: 100 } } });
check("topics", topics.data !== undefined, topics);
const topic = { topic: order.topic };
const browsed = await client.GET("/v1/topics/{topic}/jobs", { params: { path: topic, query: { state: "waiting" } } });
check("browse", browsed.data?.jobs.length === 0, browsed);
const forecast = await client.GET("/v1/forecast", { params: { query: { spans: "1m,1h,24h" } } });
check("forecast", forecast.data?.spans.length === 3, forecast);
const load = await client.GET("/v1/load", { params: { query: { topic: order.topic, within: "60" } } });
check("load", load.data?.load === 0, load);
const partitions = await client.GET("/v1/partitions");
check("partitions", partitions.data?.partitions.length === 1 && partitions.data.partitions[0]?.partition === 0, partitions);
const limited = await client.PUT("/v1/topics/{topic}/limit", { params: { path: topic }, body: { concurrency: 4, rate: 10 } });
check("limit", limited.data?.concurrency === 4 && limited.data.slots_taken === 0, limited);
const shown = await client.GET("/v1/topics/{topic}", { params: { path: topic } });
check("topic", shown.data?.limit?.concurrency === 4 && shown.data.slots_taken === 0, shown);
const unlimited = await client.DELETE("/v1/topics/{topic}/limit", { params: { path: topic } });
check("end of the limit", unlimited.response.status === 204, unlimited);
const paused = await client.POST("/v1/topics/{topic}/pause", { params: { path: topic }, body: { for: "2h", note: "ask Eve" } });
check("pause", paused.response.status === 204, paused);
const throttled = await client.POST("/v1/topics/{topic}/throttle", { params: { path: topic }, body: { for: 30 } });
check("throttle", throttled.response.status === 204, throttled);
const all = await client.GET("/v1/paused");
check("paused", all.data?.paused[0]?.note === "ask Eve", all);
const resumed = await client.POST("/v1/topics/{topic}/resume", { params: { path: topic } });
check("resume", resumed.data?.was_paused === true, resumed);
const report = { name: "report" };
const scheduled = await client.PUT("/v1/schedules/{name}", {
  params: { path: report },
  body: { cron: "0 7 * * mon-fri", zone: "Europe/Berlin", topic: "report", body: "yesterday" },
});
check("schedule", scheduled.data?.next !== undefined, scheduled);
const ran = await client.POST("/v1/schedules/{name}/run", { params: { path: report } });
check("run", ran.data?.id !== undefined, ran);
const pausing = await client.PATCH("/v1/schedules/{name}", { params: { path: report }, body: { paused: true } });
check("pause", pausing.response.status === 204, pausing);
const schedules = await client.GET("/v1/schedules");
check("schedules", schedules.data?.schedules[0]?.paused !== undefined, schedules);
const unscheduled = await client.DELETE("/v1/schedules/{name}", { params: { path: report } });
check("unschedule", unscheduled.response.status === 204, unscheduled);
const another = await client.POST("/v1/jobs", { body: { ...order, delay: "2h" } });
check("push another", another.data?.outcome === "created", another);
const counted = await client.PATCH("/v1/topics/{topic}/jobs", { params: { path: topic, query: { match: "*", dry_run: "true" } }, body: { delay: "1h" } });
check("reschedule many", counted.data?.count === 1, counted);
const some = await client.DELETE("/v1/topics/{topic}/jobs", { params: { path: topic, query: { match: "order-*", state: "waiting", limit: 100 } } });
check("remove many", some.data?.count === 1 && some.data.complete, some);
const purged = await client.DELETE("/v1/topics/{topic}/ready", { params: { path: topic } });
check("purge", purged.data?.complete === true, purged);
const dead = await client.GET("/v1/dead/{topic}", { params: { path: topic } });
check("dead letters", dead.data?.jobs.length === 0, dead);
const groups = await client.GET("/v1/dead/{topic}/groups", { params: { path: topic } });
check("groups", groups.data?.complete === true, groups);
const requeued = await client.POST("/v1/dead/{topic}/requeue", { params: { path: topic }, body: { error: "shop is closed" } });
check("requeue", requeued.data?.count === 0, requeued);
