// Package conformance tries every script and every promise of Delayer on a Redis and prints a table of what
// works there: make conformance. Its main types are line, a row of that table with its trial, and stage,
// where the trial runs. It uses keys of its own and deletes them.
package conformance
