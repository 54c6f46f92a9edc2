// Package history checks that each job lives through its operations one after another. Its test lets producers,
// consumers and servers work while connections are killed and Redis is restarted, records what each call was
// told and when, and asks a checker of linearizability whether any order of the calls explains that.
//
// It is a module of its own, so that the checker reaches no user of the library.
package history
