// Package client pushes jobs that fall due later, and takes them when they have.
package client
