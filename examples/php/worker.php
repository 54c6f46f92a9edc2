<?php
// php worker.php: closes orders that were not paid in time. A failed one is tried again after ten seconds.

require __DIR__ . '/delayer.php';

function closeOrder(int $number): void
{
    echo "order $number is closed\n";
}

while (true) {
    $got = delayer('POST', '/v1/reserve?wait=30s', ['topics' => ['close_order'], 'lease' => '1m', 'max_attempts' => 10]);
    foreach ($got['deliveries'] as $job) {
        $path = '/v1/jobs/' . rawurlencode($job['id']);
        $lease = ['topic' => $job['topic'], 'token' => $job['token']];
        try {
            closeOrder(json_decode($job['body'], true, flags: JSON_THROW_ON_ERROR)['number']);
        } catch (Exception $failure) {
            delayer('POST', "$path/retry", $lease + ['delay' => '10s', 'error' => $failure->getMessage()]);
            continue;
        }
        delayer('POST', "$path/ack", $lease);
    }
}
