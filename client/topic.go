package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Topic is the name of a topic whose bodies are JSON of a T. Declare it once, and producers push what handlers
// take:
//
//	const CloseOrder client.Topic[Order] = "close_order"
//
//	_, err := CloseOrder.Push(ctx, c, order, 30*time.Minute, client.ID(order.ID))
//
//	worker.Handle(mux, CloseOrder, func(ctx context.Context, o Order) error { … })
type Topic[T any] string

// Push is Client.Push for a job whose body is the value. Option ID gives it an ID.
func (t Topic[T]) Push(ctx context.Context, c *Client, value T, delay time.Duration, opts ...PushOption) (Result, error) {
	m, err := t.Message(value)
	if err != nil {
		return Result{}, failed("push", "", err)
	}
	return c.Push(ctx, m, delay, opts...)
}

// PushAt is Client.PushAt for a job whose body is the value. Option ID gives it an ID.
func (t Topic[T]) PushAt(ctx context.Context, c *Client, value T, due time.Time, opts ...PushOption) (Result, error) {
	m, err := t.Message(value)
	if err != nil {
		return Result{}, failed("push", "", err)
	}
	return c.PushAt(ctx, m, due, opts...)
}

// Message returns a job whose body is the value, for PushBatch and the like. A value that JSON
// cannot represent is ErrInvalid.
func (t Topic[T]) Message(value T) (Message, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return Message{}, fmt.Errorf("%w body: it can't be encoded: %w", ErrInvalid, err)
	}
	return Message{Topic: string(t), Body: string(body)}, nil
}
