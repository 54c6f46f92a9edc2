package web

// filesAllowed returns 0, since Windows has no such limit.
func filesAllowed() uint64 { return 0 }
