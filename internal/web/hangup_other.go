//go:build !linux

package web

import "net"

// stateOf is not implemented here. The request's context, which ends when the client closes its side, has to
// do.
func stateOf(net.Conn) (state connState, unread bool) { return unknown, false }
