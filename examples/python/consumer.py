import json, os, time, urllib.parse, urllib.request

def delayer(path, data):
    request = urllib.request.Request("http://127.0.0.1:9277" + path, json.dumps(data).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("TOKEN", "")})
    with urllib.request.urlopen(request, timeout=60) as response:   # longer than any wait
        return json.loads(response.read() or "null")

def work(job):
    path, lease = "/v1/jobs/" + urllib.parse.quote(job["id"], safe=""), {"topic": job["topic"], "token": job["token"]}
    try:
        print("closing order", json.loads(job["body"])["order"], flush=True)
    except Exception as failure:
        delayer(path + "/retry", {**lease, "delay": "10s", "error": str(failure)})
    else:
        delayer(path + "/ack", lease)

while True:
    try:
        for job in delayer("/v1/reserve?wait=30s", {"topics": ["close_order"], "lease": "1m", "max_attempts": 10})["deliveries"]:
            work(job)
    except OSError as error:   # no response, or an error such as a lost lease
        print(error)
        time.sleep(1)
