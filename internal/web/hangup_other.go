//go:build !linux

package web

import "net"

// stateOf always returns unknown: only Linux tells how a connection stands. Elsewhere a long poll ends with the request's context,
// which ends when the client closes its side.
func stateOf(net.Conn) (state connState, unread bool) { return unknown, false }
