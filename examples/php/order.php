<?php
// php order.php NUMBER [TO_PAY]: places an order, which is closed if it is not paid in time.

require __DIR__ . '/delayer.php';

[, $number, $toPay] = $argv + [1 => '1001', 2 => '30m'];

delayer('POST', '/v1/jobs', [
    'id'    => "close-order-$number", // pay.php cancels the job by it
    'topic' => 'close_order',
    'body'  => json_encode(['number' => (int) $number]),
    'delay' => $toPay,
]);
echo "order $number is placed\n";
