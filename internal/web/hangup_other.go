//go:build !linux

package web

import "net"

// stateOf is not known here: the request's context has to do, which ends with the client's side.
func stateOf(net.Conn) (state connState, unread bool) { return unknown, false }
