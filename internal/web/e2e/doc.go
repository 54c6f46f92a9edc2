// Package e2e holds the tests of the dashboard in a browser: a real Chromium, the real daemon, a
// real Redis. It is a module of its own, so that nobody inherits what it needs.
package e2e
