// Package openapitest holds the JSON API and its description together. It is a module of its own, so
// that nobody else needs what reads the description.
package openapitest
