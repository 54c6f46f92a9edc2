import java.io.IOException;
import java.net.URI;
import java.net.http.*;

class Consumer {
    static final HttpClient http = HttpClient.newHttpClient();

    static String delayer(String path, String body) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:9277" + path))
            .header("Content-Type", "application/json").header("Authorization", "Bearer " + System.getenv("TOKEN"))
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) {
            throw new IOException(response.body());
        }
        return response.body();
    }

    public static void main(String[] args) throws InterruptedException {
        while (true) {
            try {
                String got = delayer("/v1/reserve?wait=30s", "{\"topics\": [\"close_order\"], \"lease\": \"1m\", \"max_attempts\": 10}");
                if (got.contains("\"token\"")) {
                    System.out.println("closing the order of " + got);
                    delayer("/v1/ack", got); // {"deliveries": […]}
                }
            } catch (IOException error) { // no response, or an error
                System.out.println(error.getMessage());
                Thread.sleep(1000);
            }
        }
    }
}
