type Job = { id: string; topic: string; token: number; attempt: number; body: string };

async function delayer(path: string, data: object): Promise<any> {
  const response = await fetch("http://127.0.0.1:9277" + path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.TOKEN}` },
    body: JSON.stringify(data),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text === "" ? null : JSON.parse(text);
}

async function work(job: Job) {
  const path = "/v1/jobs/" + encodeURIComponent(job.id), lease = { topic: job.topic, token: job.token };
  try {
    console.log("closing order", JSON.parse(job.body).order);
  } catch (failure) {
    return delayer(path + "/retry", { ...lease, delay: "10s", error: String(failure) });
  }
  return delayer(path + "/ack", lease);
}

for (;;) {
  try {
    const got = await delayer("/v1/reserve?wait=30s", { topics: ["close_order"], lease: "1m", max_attempts: 10 });
    for (const job of got.deliveries as Job[]) await work(job);
  } catch (error) { // no response, or an error such as a lost lease
    console.error(error);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
