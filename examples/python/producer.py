import json, os, urllib.request

def delayer(path, data):
    request = urllib.request.Request("http://127.0.0.1:9277" + path, json.dumps(data).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("TOKEN", "")})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read() or "null")

delayer("/v1/jobs", {"id": "close-order-1001", "topic": "close_order", "body": json.dumps({"order": "1001"}), "delay": "30m"})
