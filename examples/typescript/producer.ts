const response = await fetch("http://127.0.0.1:9277/v1/jobs", {
  method: "POST",
  headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.TOKEN}` },
  body: JSON.stringify({ id: "close-order-1001", topic: "close_order", body: JSON.stringify({ order: "1001" }), delay: "30m" }),
});
if (!response.ok) throw new Error(await response.text());
