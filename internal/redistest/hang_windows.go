package redistest

// Hang skips the test: Windows can't stop a process.
func (s *Server) Hang() { s.TB.Skip("Windows can't stop a process") }

// Resume lets a server go on that was made to hang.
func (s *Server) Resume() {}
