<?php
// Calls the HTTP API of the daemon at DELAYER_URL.

function delayer(string $method, string $path, ?array $data = null): ?array
{
    $url = getenv('DELAYER_URL') ?: 'http://127.0.0.1:9277';
    $answer = file_get_contents($url . $path, false, stream_context_create(['http' => [
        'method'        => $method,
        'header'        => "Content-Type: application/json\r\nAuthorization: Bearer " . getenv('DELAYER_TOKEN'),
        'content'       => $data === null ? '' : json_encode($data),
        'timeout'       => 60, // longer than any wait
        'ignore_errors' => true,
    ]]));
    if ($answer === false) {
        throw new RuntimeException('Delayer does not respond: whether the call was done is unknown');
    }
    $answer = json_decode($answer, true);
    if (str_starts_with($answer['type'] ?? '', 'urn:delayer:problem:')) {
        throw new RuntimeException($answer['detail'] ?? $answer['title']);
    }
    return $answer;
}
