package conformance

import "slices"

// promises lists what the client and the server promise, explained in docs/guarantees.md.
var promises = slices.Concat(pushing, taking, reserving, steering, operating)
