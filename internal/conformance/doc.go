// Package conformance tries every script and every promise of Delayer on a Redis and prints a table of the
// results: make conformance. Its main types are line, a row of that table with its trial, and stage, where
// the trial runs. It uses its own keys and deletes them.
package conformance
