package conformance

import "slices"

// promises lists the promises of client and server. docs/guarantees.md explains them.
var promises = slices.Concat(pushing, taking, reserving, steering, operating)
