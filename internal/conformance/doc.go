// Package conformance tries every script and every promise of Delayer on a Redis, and prints a table of
// what works there and what doesn't: make conformance. It makes keys of its own there, and deletes them.
package conformance
