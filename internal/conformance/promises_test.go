package conformance

import "slices"

// promises are those of the client and the server. docs/guarantees.md says more of them.
var promises = slices.Concat(pushing, taking, reserving, steering, operating)
