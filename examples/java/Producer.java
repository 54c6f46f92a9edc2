import java.net.URI;
import java.net.http.*;

class Producer {
    public static void main(String[] args) throws Exception {
        String job = """
            {"id": "close-order-1001", "topic": "close_order", "body": "{\\"order\\":\\"1001\\"}", "delay": "30m"}""";
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:9277/v1/jobs"))
            .header("Content-Type", "application/json").header("Authorization", "Bearer " + System.getenv("TOKEN"))
            .POST(HttpRequest.BodyPublishers.ofString(job)).build();
        HttpResponse<String> response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) {
            throw new Exception(response.body());
        }
    }
}
